// The phases of gangs in the words of users, each with an icon, a colour and a group of the list.

import type { Gang } from "./data";
import { titleOf } from "./data";

export type Tone = "ok" | "go" | "out" | "wait" | "never" | "done";
export type Group = "never" | "waiting" | "motion" | "running" | "ended";

export interface PhaseShown {
  label: string;
  icon: string;
  tone: Tone;
  group: Group;
}

const SHOWN = {
  running: { label: "Running", icon: "placed", tone: "ok", group: "running" },
  releasing: { label: "Releasing", icon: "releasing", tone: "go", group: "motion" },
  reserved: { label: "Reserved", icon: "releasing", tone: "go", group: "motion" },
  evicting: { label: "Evicting", icon: "evicting", tone: "out", group: "motion" },
  capacity: { label: "Waits for capacity", icon: "room", tone: "wait", group: "waiting" },
  quota: { label: "Waits for quota", icon: "quota", tone: "wait", group: "waiting" },
  pods: { label: "Waits for pods", icon: "room", tone: "wait", group: "waiting" },
  devices: { label: "Waits for devices", icon: "room", tone: "wait", group: "waiting" },
  plan: { label: "Waits for its plan", icon: "room", tone: "wait", group: "waiting" },
  fresh: { label: "New", icon: "room", tone: "wait", group: "waiting" },
  never: { label: "Can never fit", icon: "never", tone: "never", group: "never" },
  invalid: { label: "Invalid request", icon: "never", tone: "never", group: "never" },
  finished: { label: "Finished", icon: "finished", tone: "done", group: "ended" },
  failed: { label: "Failed", icon: "never", tone: "never", group: "ended" },
  fits: { label: "Would start now", icon: "placed", tone: "ok", group: "running" },
} satisfies Record<string, PhaseShown>;

/** The groups of the list in their order, with the labels of the list and of the filters. */
export const GROUPS: [Group, string, string][] = [
  ["never", "Can never fit", "Never fit"],
  ["waiting", "Waiting", "Waiting"],
  ["motion", "In motion", "In motion"],
  ["running", "Running", "Running"],
  ["ended", "Ended", "Ended"],
];

const WAITING: Record<string, PhaseShown> = {
  QuotaExhausted: SHOWN.quota,
  ResourceClaims: SHOWN.devices,
  NotPlannedYet: SHOWN.plan,
};

/** The phase of a gang as the page shows it (phases: controller/gang_status.py; reasons: planning/decision.py). */
export function phaseOf(gang: Pick<Gang, "phase" | "reason" | "planned">): PhaseShown {
  switch (gang.phase) {
    case "Placed":
      return gang.planned ? SHOWN.fits : SHOWN.running;
    case "Released":
      return SHOWN.releasing;
    case "Nominated":
      return SHOWN.reserved;
    case "Evicting":
      return SHOWN.evicting;
    case "Unplaceable":
      return gang.reason === "NeverFits" ? SHOWN.never : SHOWN.capacity;
    case "Invalid":
      return SHOWN.invalid;
    case "Waiting":
      return WAITING[gang.reason ?? ""] ?? SHOWN.pods;
    case "Finished":
    case "Succeeded":
      return SHOWN.finished;
    case "Failed":
      return SHOWN.failed;
    default:
      return SHOWN.fresh;
  }
}

/** The message of a gang beside the label of its phase, which the message may begin with. */
export function messageBeside(label: string, message: string): string {
  return message.toLowerCase().startsWith(`${label.toLowerCase()}: `) ? message.slice(label.length + 2) : message;
}

/** Whether the search finds a gang: every word is part of its name, phase, queue, system or message. */
export function finds(gang: Gang, words: string): boolean {
  return matches([titleOf(gang), phaseOf(gang).label, gang.phase, gang.queue ?? "", gang.dialect, gang.message].join(" "), words);
}

/** Whether every word is part of the text, in upper or lower case. */
export function matches(text: string, words: string): boolean {
  const lower = text.toLowerCase();
  return words.toLowerCase().split(/\s+/).every((word) => lower.includes(word));
}

/** Units of durations in seconds, the largest first. */
const UNITS: readonly [string, number][] = [["d", 86_400], ["h", 3600], ["min", 60], ["s", 1]];

/** A duration such as "1 h 56 min". A second unit stands beside a number below ten, where rounding would mislead. */
export function lasting(seconds: number): string {
  const at = UNITS.findIndex(([, size]) => seconds >= size);
  const [unit, size] = UNITS[at] ?? ["s", 1];
  const count = Math.max(0, Math.floor(seconds / size));
  const [smaller, part] = UNITS[at + 1] ?? ["", 0];
  const rest = part && count < 10 ? Math.floor((seconds % size) / part) : 0;
  return rest ? `${count} ${unit} ${rest} ${smaller}` : `${count} ${unit}`;
}

/** A duration in the largest unit that fits, such as "8 min". */
export function briefly(seconds: number): string {
  const [unit, size] = UNITS.find(([, size]) => seconds >= size) ?? ["s", 1];
  return `${Math.max(0, Math.floor(seconds / size))} ${unit}`;
}

/** The time since an RFC 3339 time; "" if there is none. */
export function since(time: string | undefined, now: number): string {
  const at = Date.parse(time ?? "");
  return Number.isNaN(at) ? "" : briefly((now - at) / 1000);
}

/** A time in the future: how long from now, and the time of the day; with the date if it is on another day. */
export function freeAt(start: string, now: number): string {
  const at = new Date(start);
  const today = at.toDateString() === new Date(now).toDateString();
  const clock = at.toLocaleString([], today ? { timeStyle: "short" } : { dateStyle: "short", timeStyle: "short" });
  return `in ${lasting((at.getTime() - now) / 1000)} (${clock})`;
}
