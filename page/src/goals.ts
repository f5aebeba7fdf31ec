// The goals of a plan in words, the most important goal first (solver/objective.py).

import type { Goal } from "./data";

const GOALS: Record<string, string> = {
  victims: "victims, by priority",
  gangsBroken: "gangs broken by evictions",
  evicted: "what the victims hold",
  extras: "members beyond the minimum",
  compactness: "domains used",
  preferences: "node preferences fulfilled, by weight",
  terminating: "capacity used that terminating pods still hold",
  waste: "free capacity left beside the gang",
  ranks: "neighbours by rank apart",
  ties: "ties",
};

export function goalName(goal: string): string {
  const [name = "", level] = goal.split("/");
  return (GOALS[name] ?? name) + (level ? `, level ${level}` : "");
}

/** The value of a goal with its parts, such as "3 (0: 1, 5: 2)". */
export function valueOf(goal: Goal): string {
  const parts = Object.entries(goal.parts ?? {});
  return String(goal.value) + (parts.length > 1 ? ` (${parts.map(([name, value]) => `${name}: ${value}`).join(", ")})` : "");
}

/** Whether the solver has proven that no plan needs fewer domains of a level. */
export function isFewest(objective: readonly Goal[] | null | undefined, level: string): boolean {
  const goal = objective?.find((each) => each.goal === `compactness/${level}`);
  return goal !== undefined && goal.bound === goal.value;
}
