// The state of the drawer "Try it", and its requests to the webhook. A dry run creates nothing.

import { batch, signal } from "@preact/signals";

import { Refused, reasonOf } from "./asking";
import type { Cluster, Gang, Goal, Near, Victim } from "./data";
import { share } from "./sharing";
import { liveCluster, openTrying, trial, trialGang, trials, type Trial } from "./state";
import { asIf } from "./whatif";

/** A gang's entry in a SolveReport (planning/messages/solve_report.py). */
export interface Decision {
  namespace: string;
  name: string;
  dialect: string;
  outcome: string;
  members: number;
  placed: number;
  proof: string;
  message: string;
  assignments: { namespace: string; pod: string; node: string; devices?: { request: string; device: string }[] }[];
  objective: Goal[];
  victims: Victim[];
  explanation: { nearest?: Near[]; wouldFitIf?: string[]; whyHere?: string };
}

/** Devices by request, such as "gpu: gpu-0, gpu-1". */
function devicesByRequest(devices: { request: string; device: string }[]): string {
  const found = new Map<string, string[]>();
  for (const { request, device } of devices) found.set(request, [...(found.get(request) ?? []), device]);
  return [...found].map(([request, names]) => `${request}: ${names.join(", ")}`).join("; ");
}

/** A decision as a gang with its story. */
export function asGang(decision: Decision): Gang {
  const { namespace, name, dialect, outcome, message, proof, objective, victims, explanation } = decision;
  const members = decision.assignments.map((each) => ({ ...each, nominatedNode: null }));
  const story = {
    ...{ phase: outcome, reason: null, message, proof, objective, victims, explanation, place: null },
    ...{ askedBy: "", wants: "", since: "", heldBack: [], steps: [], withoutEvents: "" },
    presence: `${decision.placed} of ${decision.members} would have a node`,
    members: decision.assignments.map(({ pod, node, devices = [] }) => ({
      ...{ pod, node, state: "would run on" },
      ...(devices.length ? { devices: devicesByRequest(devices) } : {}),
    })),
  };
  return { namespace, name, dialect, phase: outcome, message, members, expected: decision.members, story, planned: true };
}

/** The what-if options of /v1/solve, with the label and an example of each field. */
export const OPTIONS = [
  ["drain", "Drain", "node-1, node-2"],
  ["cordon", "Cordon", "node-1, node-2"],
  ["add-nodes", "Add nodes", "4=node-5"],
  ["relax", "Only prefer", "rack"],
  ["gang", "Plan, too", "namespace/gang"],
] as const;
export type Option = (typeof OPTIONS)[number][0];
export type WhatIfFields = Partial<Record<Option, string>>;

export const text = signal("");
export const fields = signal<WhatIfFields>({});
export const evictions = signal(true);

export interface Mistake {
  text: string;
  /** The line of the input, from 1; undefined: unknown. */
  line: number | undefined;
}
export type Progress = { kind: "empty" } | { kind: "planning" } | { kind: "planned"; seconds: number } | { kind: "failed"; why: string; mistakes: Mistake[] };
export const progress = signal<Progress>({ kind: "empty" });

/** Open the drawer with a what-if. */
export function prefill(wanted: WhatIfFields): void {
  batch(() => {
    fields.value = wanted;
    trials.value = [];
    progress.value = { kind: "empty" };
    openTrying();
  });
}

export function clearAll(): void {
  batch(() => {
    text.value = "";
    fields.value = {};
    evictions.value = true;
    trials.value = [];
    progress.value = { kind: "empty" };
  });
}

function values(): Map<string, string[]> {
  const split = (value: string): string[] => value.split(",").map((part) => part.trim()).filter((part) => part);
  return new Map(OPTIONS.map(([name]) => [name, split(fields.value[name] ?? "")]));
}

/** The line that a mistake is about: the line it names, else the first line with the last field that it names. */
export function lineOf(mistake: string, input: string): number | undefined {
  const named = /^[^:]*:(\d+): |\bline (\d+)/.exec(mistake)?.slice(1).find((each) => each);
  if (named) return Number(named);
  const lines = input.split("\n");
  for (const part of mistake.split(": ").slice(0, -1).reverse()) {
    for (const field of part.split(/[.[\]]/).filter((each) => /^[\w/-]+$/.test(each)).reverse()) {
      const at = lines.findIndex((line) => new RegExp(`^[\\s-]*["']?${field.replace(/[/.]/g, "\\$&")}["']?\\s*:`).test(line));
      if (at >= 0) return at + 1;
    }
  }
  return undefined;
}

async function solved(asked: ReadonlyMap<string, string[]>, withEvictions: boolean): Promise<{ decisions: Decision[]; warnings: string }> {
  const query = new URLSearchParams({ cluster: "live", why: "true", timeout: "30s" });
  for (const [name, wanted] of asked) for (const value of wanted) query.append(name, value);
  if (!withEvictions) query.set("preemption", "false");
  const answer = await fetch(`/v1/solve?${query.toString()}`, { method: "POST", body: text.value });
  if (!answer.ok) throw await reasonOf(answer);
  const { gangs } = (await answer.json()) as { gangs: Decision[] };
  return { decisions: gangs, warnings: answer.headers.get("Warning") ?? "" };
}

function trialFrom(label: string, cluster: Cluster, { decisions, warnings }: { decisions: Decision[]; warnings: string }): Trial {
  return { label, gangs: decisions.map(asGang), cluster, warnings, share: () => void share(decisions, cluster) };
}

function labelOf(asked: ReadonlyMap<string, string[]>): string {
  const words: Record<string, string> = { drain: "drained", cordon: "cordoned", "add-nodes": "added", relax: "only preferred" };
  const parts = [...asked].filter(([name, wanted]) => wanted.length && words[name]).map(([name, wanted]) => `${wanted.join(", ")} ${words[name] ?? ""}`);
  return [...parts, ...(evictions.value ? [] : ["no evictions"])].join("; ");
}

/** Plan the input on the cluster as it is, and if there is a what-if, on the cluster as it would be. */
export async function plan(): Promise<void> {
  const begun = performance.now();
  const [asked, input] = [values(), text.value];
  const plain = new Map([["gang", asked.get("gang") ?? []]]);
  const label = labelOf(asked);
  progress.value = { kind: "planning" };
  trials.value = [];
  try {
    const cluster = liveCluster.value;
    const found: Trial[] = [];
    if (label) found.push(trialFrom(label, asIf(cluster, asked), await solved(asked, evictions.value)));
    found.unshift(trialFrom("As the cluster is", cluster, await solved(plain, true)));
    batch(() => {
      trials.value = found;
      trial.value = found.length - 1;
      trialGang.value = 0;
      progress.value = { kind: "planned", seconds: (performance.now() - begun) / 1000 };
    });
  } catch (error) {
    const told = error instanceof Refused ? error.mistakes : [];
    const mistakes = told.map((mistake) => ({ text: mistake, line: lineOf(mistake, input) }));
    progress.value = { kind: "failed", why: (error as Error).message, mistakes };
  }
}
