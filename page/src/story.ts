// A gang's story: how it stands, where it would fit, its plan goal by goal, and what has happened to it so far.

import { type Gang, type Goal, type Story, titleOf } from "./data";
import { button, facts, made, table } from "./dom";

const GOALS: Record<string, string> = {
  victims: "victims, by priority",
  gangsBroken: "gangs broken by evictions",
  evicted: "what the victims hold",
  extras: "members beyond the minimum",
  compactness: "domains used",
  preferences: "node preferences fulfilled, by weight",
  terminating: "capacity used that terminating pods still hold",
  waste: "room left behind",
  ranks: "neighbours by rank apart",
  ties: "ties",
};

function goalName(goal: string): string {
  const [name = "", level] = goal.split("/");
  return (GOALS[name] ?? name) + (level ? `, level ${level}` : "");
}

function proven(goal: Goal): string {
  if (goal.bound === null) return "not proven";
  return goal.bound === goal.value ? "proven: none is better" : `none is better than ${goal.bound}`;
}

function parts(goal: Goal): string {
  const found = Object.entries(goal.parts ?? {});
  return found.length > 1 ? ` (${found.map(([name, value]) => `${name}: ${value}`).join(", ")})` : "";
}

export function later(seconds: number): string {
  if (seconds < 60) return `${seconds.toFixed(seconds < 10 ? 1 : 0)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

function nearest(story: Story, zoom: (path: string[]) => void): HTMLElement[] {
  const near = story.explanation?.nearest ?? [];
  if (!near.length) return [];
  const rows = near.map((each) => [
    button(each.path.join(" / ") || "the whole cluster", () => zoom(each.path), { class: "link" }),
    `${each.fits} of ${each.needed} fit`,
    String(each.needed - each.fits),
    String(each.nodes),
    Object.entries(each.excluded ?? {}).map(([reason, count]) => `${count} ${reason}`).join(", ") || "none",
  ]);
  return [table("The nearest domains, lit on the picture", ["Domain", "Members", "Missing", "Nodes", "Nodes left out"], rows)];
}

function changes(story: Story): HTMLElement[] {
  const found = story.explanation?.wouldFitIf ?? [];
  if (!found.length) return [];
  return [made("h4", {}, "It would fit if"), made("ul", {}, ...found.map((each) => made("li", {}, each)))];
}

function plan(story: Story): HTMLElement[] {
  const goals = story.objective ?? [];
  const shown: HTMLElement[] = [];
  if (goals.length) {
    const rows = goals.map((each) => [goalName(each.goal), `${each.value}${parts(each)}`, proven(each)]);
    shown.push(table("The plan, goal by goal: an earlier one is never given up for a later one", ["Goal", "Value", "Proof"], rows));
  }
  if (story.explanation?.whyHere) shown.push(made("p", {}, made("strong", {}, "Why here: "), story.explanation.whyHere));
  const victims = story.victims ?? [];
  if (victims.length) {
    const rows = victims.map((each) => [`${each.namespace}/${each.pod}`, each.node ?? "", String(each.priority ?? ""), each.gang ?? ""]);
    shown.push(table("Evicted for it", ["Pod", "Node", "Priority", "Gang"], rows));
  }
  return shown;
}

function timeline(story: Story): HTMLElement[] {
  if (!story.steps.length) return [];
  const items = story.steps.map((step) => {
    const times = step.times > 1 ? ` (${step.times} times)` : "";
    const note = [step.of, step.note].filter((each) => each).join(": ");
    const line = made("li", step.warning ? { class: "warning" } : {});
    line.append(
      made("time", { datetime: step.at, title: step.at }, later(step.after)),
      made("span", {}, made("strong", {}, step.what), ` ${note}${times}`),
    );
    return line;
  });
  const shown: HTMLElement[] = [made("h4", {}, "What has happened"), made("ol", { class: "timeline" }, ...items)];
  if (story.withoutEvents) shown.push(made("p", {}, `Events are not all told: ${story.withoutEvents}.`));
  return shown;
}

function members(story: Story): HTMLElement[] {
  if (!story.members.length) return [];
  const rows = story.members.map((each) => [each.pod, each.state, each.node]);
  const list = table("Its members", ["Pod", "State", "Node"], rows);
  return [made("details", {}, made("summary", {}, `Each of ${story.members.length} members`), list)];
}

/** All of it as elements. `zoom`: shows a domain on the picture. */
export function told(gang: Gang, story: Story, zoom: (path: string[]) => void): HTMLElement[] {
  const proof = story.proof && story.proof !== "Unproven" ? `, ${story.proof.toLowerCase()}` : "";
  return [
    made("h3", {}, titleOf(gang), made("small", {}, ` ${story.phase ?? "new"}${story.reason ? `, ${story.reason}` : ""}${proof}`)),
    made("p", { class: "sentence" }, story.message ?? "Nothing has been decided yet."),
    facts([
      ["asked by", story.askedBy],
      ["wants", story.wants],
      ["members", story.presence],
      ["in line", story.place?.told ?? ""],
      ["since", story.since],
    ]),
    ...story.heldBack.map((each) => made("p", {}, `Held back: ${each}`)),
    ...nearest(story, zoom),
    ...changes(story),
    ...plan(story),
    ...timeline(story),
    ...members(story),
  ];
}
