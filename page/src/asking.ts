// Questions to the webhook, which alone may be asked.

export async function asked<T>(path: string, options: RequestInit = {}): Promise<T> {
  const answer = await fetch(path, { ...options, headers: { Accept: "application/json" } });
  if (answer.ok) return (await answer.json()) as T;
  throw new Refused(answer.status, await reason(answer));
}

/** An answer that is none; `message` is the webhook's own line. */
export class Refused extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** What the webhook says of an answer that is none. */
export async function reason(answer: Response): Promise<string> {
  try {
    const { error, mistakes } = (await answer.json()) as { error?: string; mistakes?: string[] };
    return [error, ...(mistakes ?? [])].filter((each) => each).join(": ") || `status ${answer.status}`;
  } catch {
    return `status ${answer.status}`;
  }
}
