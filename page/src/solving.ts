// "Try it": objects and what-if options, planned on the cluster as it is, shown on the picture. Nothing is created.

import { type Cluster, type Gang, type Goal, type Near, type Victim, titleOf } from "./data";
import { button, made } from "./dom";
import { reason } from "./asking";
import { share } from "./sharing";
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
  assignments: { namespace: string; pod: string; node: string }[];
  objective: Goal[];
  victims: Victim[];
  explanation: { nearest?: Near[]; wouldFitIf?: string[]; whyHere?: string };
}

/** A decision as a gang that tells its own story. */
export function asGang(decision: Decision): Gang {
  const { namespace, name, dialect, outcome, message, proof, objective, victims, explanation } = decision;
  const members = decision.assignments.map((each) => ({ ...each, nominatedNode: null }));
  const story = {
    ...{ phase: outcome, reason: null, message, proof, objective, victims, explanation, place: null },
    ...{ askedBy: "", wants: "", since: "", heldBack: [], steps: [], withoutEvents: "" },
    presence: `${decision.placed} of ${decision.members} would have a place`,
    members: decision.assignments.map(({ pod, node }) => ({ pod, node, state: "would go to" })),
  };
  return { namespace, name, dialect, phase: outcome, message, members, story };
}

const OPTIONS: [string, string, string][] = [
  ["gang", "Waiting gangs, too", "namespace/gang"],
  ["add-nodes", "More nodes", "4=node-5"],
  ["cordon", "Nobody new on", "node-1,node-2"],
  ["drain", "Drained", "node-1,node-2"],
  ["relax", "Levels only preferred", "rack"],
];

export class Trying {
  readonly field: HTMLElement;
  readonly #text = made("textarea", { rows: "8", spellcheck: "false" });
  readonly #options = new Map<string, HTMLInputElement>();
  readonly #preemption = made("input", { type: "checkbox", checked: "" });
  readonly #answer = made("div", { "aria-live": "polite" });

  /** `show`: puts a gang on the picture; `cluster`: as it is now. */
  constructor(
    readonly show: (gang: Gang) => void,
    readonly cluster: () => Cluster,
  ) {
    const file = made("input", { type: "file", accept: ".yaml,.yml,.json" });
    file.addEventListener("change", () => void this.#read(file.files?.[0]));
    this.#text.addEventListener("dragover", (event) => event.preventDefault());
    this.#text.addEventListener("drop", (event) => {
      const dropped = event.dataTransfer?.files[0];
      if (!dropped) return;
      event.preventDefault();
      void this.#read(dropped);
    });
    const what = OPTIONS.map(([name, label, example]) => {
      const input = made("input", { type: "text", placeholder: example });
      this.#options.set(name, input);
      return made("label", {}, `${label} `, input);
    });
    this.field = made(
      "details",
      { class: "trying" },
      made("summary", {}, "Try it: what would happen? Nothing is created"),
      made("label", {}, "Kubernetes objects, YAML or JSON; or drop a file here", this.#text),
      made("p", {}, made("label", {}, "From a file ", file)),
      made("fieldset", {}, made("legend", {}, "What if"), ...what, made("label", {}, this.#preemption, " evictions allowed")),
      made("p", {}, button("Plan it", () => void this.#plan())),
      this.#answer,
    );
  }

  async #read(file: File | undefined): Promise<void> {
    if (file) this.#text.value = await file.text();
  }

  async #plan(): Promise<void> {
    const query = new URLSearchParams({ cluster: "live", why: "true", timeout: "30s" });
    const asked = new Map<string, string[]>();
    for (const [name, input] of this.#options) {
      asked.set(name, input.value.split(",").map((value) => value.trim()).filter((value) => value));
      for (const value of asked.get(name) ?? []) query.append(name, value);
    }
    if (!this.#preemption.checked) query.set("preemption", "false");
    this.#answer.replaceChildren(made("p", {}, "Planning…"));
    try {
      const answer = await fetch(`/v1/solve?${query.toString()}`, { method: "POST", body: this.#text.value });
      if (!answer.ok) throw new Error(await reason(answer));
      const { gangs } = (await answer.json()) as { gangs: Decision[] };
      this.#tell(gangs, asIf(this.cluster(), asked), answer.headers.get("Warning") ?? "");
    } catch (error) {
      this.#answer.replaceChildren(made("p", { role: "alert" }, `No plan: ${(error as Error).message}`));
    }
  }

  #tell(decisions: Decision[], cluster: Cluster, warnings: string): void {
    const gangs = decisions.map((each) => ({ ...asGang(each), ...(cluster === this.cluster() ? {} : { asIf: cluster }) }));
    const items = gangs.map((gang) =>
      made("li", {}, button(`${titleOf(gang)}: ${gang.phase}`, () => this.show(gang), { class: "link" }), ` ${gang.message}`),
    );
    const said = items.length ? made("ul", {}, ...items) : made("p", {}, "Nothing to plan: the input asks for no gang.");
    const keep = button("Share as a file", () => void share(decisions, cluster));
    this.#answer.replaceChildren(said, ...(items.length ? [made("p", {}, keep)] : []), ...(warnings ? [made("p", {}, `Warnings: ${warnings}`)] : []));
    if (gangs[0]) this.show(gangs[0]);
  }
}
