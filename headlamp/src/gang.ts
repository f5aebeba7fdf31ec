// The parts of a Gang object that the plugin shows (docs/reference/objects.md), and their texts.

export interface Near {
  path: string[];
  fits: number;
  needed: number;
  nodes: number;
  excluded?: Record<string, number>;
}

export interface GangStatus {
  phase?: string;
  reason?: string;
  message?: string;
  proof?: string;
  restarts?: number;
  summary?: { pods?: string; domain?: string };
  assignments?: { pod: string; node: string }[];
  victims?: { namespace: string; pod: string; node?: string; gang?: string | null }[];
  explanation?: { nearest?: Near[]; wouldFitIf?: string[]; whyHere?: string };
}

export interface GangSpec {
  queue?: string;
  required?: string;
  preferred?: string;
  minMember?: number;
}

/** The state in which Headlamp colours a label. */
export type Tone = "success" | "warning" | "error" | "";

/** The tone of a phase: placed and released gangs are well, and those that can never fit are not. */
export function toneOf({ phase, reason }: GangStatus): Tone {
  if (phase === "Placed" || phase === "Released") return "success";
  if (phase === "Invalid" || reason === "NeverFits") return "error";
  return phase ? "warning" : "";
}

/** A phase with its reason, such as "Unplaceable: NoRoom". */
export function stateOf({ phase, reason }: GangStatus): string {
  return phase ? (reason && phase !== "Placed" ? `${phase}: ${reason}` : phase) : "New";
}

/** Why nodes of a domain hold no pod, such as "5 Insufficient cpu". */
export function exclusions({ excluded }: Near): string {
  return Object.entries(excluded ?? {})
    .map(([reason, count]) => `${count} ${reason}`)
    .join(", ");
}
