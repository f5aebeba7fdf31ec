// Requests to the webhook. The page's policy allows requests to no other server.

export async function asked<T>(path: string, options: RequestInit = {}): Promise<T> {
  const answer = await fetch(path, { ...options, headers: { Accept: "application/json" } });
  if (answer.ok) return (await answer.json()) as T;
  throw await reasonOf(answer);
}

/** A refused request. `message` is the webhook's text; `mistakes` are the faults of the input. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
    readonly mistakes: readonly string[] = [],
  ) {
    super(message);
  }
}

/** The error that a refused request raises. */
export async function reasonOf(answer: Response): Promise<Refused> {
  try {
    const { error, mistakes = [] } = (await answer.json()) as { error?: string; mistakes?: string[] };
    return new Refused(answer.status, error ?? `status ${answer.status}`, mistakes);
  } catch {
    return new Refused(answer.status, `status ${answer.status}`);
  }
}
