// The key figures above the cluster view.

import { cluster, connection, domainSums, filter, gangs, reading, resource, root, size, tab } from "./state";
import { unitName, written } from "./data";
import { domainOf, largest, scattered, sizesOf } from "./figures";
import { Icon } from "./icons";
import { unitOf } from "./looks";
import { Stack } from "./parts";
import { type Group, phaseOf } from "./phases";
import { topology } from "./state";

const PHASES: [string, Group, string, string][] = [
  ["Never fit", "never", "never", "never"],
  ["Waiting", "waiting", "room", "wait"],
  ["In motion", "motion", "releasing", "go"],
  ["Running", "running", "placed", "ok"],
];

function Capacity() {
  const name = resource.value;
  const sums = domainSums.value.get("");
  if (!sums) return null;
  const text = (base: number): string => written(name, base);
  return (
    <div class="key k1">
      <h2>{unitName(name)}</h2>
      <div class="gpu">
        <div class="big nw">
          {text(sums.free)} <small>free of {text(sums.all)}</small>
        </div>
        <Stack sums={sums} label={text} />
      </div>
      <ul class="parts">
        <li>
          <b>{text(sums.used)}</b> used
        </li>
        <li>
          <b>{text(sums.reserved)}</b> reserved
        </li>
        <li>
          <b>{text(sums.terminating)}</b> terminating
        </li>
      </ul>
    </div>
  );
}

function Phases() {
  const counts = new Map<Group, number>();
  for (const gang of gangs.value) {
    const { group } = phaseOf(gang);
    counts.set(group, (counts.get(group) ?? 0) + 1);
  }
  const choose = (group: Group): void => {
    filter.value = filter.value === group ? "" : group;
    tab.value = "gangs";
  };
  return (
    <div class="key k2">
      <h2>Gangs</h2>
      <div class="cols">
        {PHASES.map(([label, group, icon, tone]) => (
          <button key={group} type="button" title={`Show only: ${label}`} aria-pressed={filter.value === group} onClick={() => choose(group)}>
            <span class="big">
              <Icon name={icon} tone={tone} />
              {counts.get(group) ?? 0}
            </span>
            <span class="clip">{label}</span>
          </button>
        ))}
      </div>
    </div>
  );
}

function Fits() {
  const name = resource.value;
  const sizes = sizesOf(root.value, cluster.value, name);
  const chosen = sizes.includes(size.value) ? size.value : sizes.at(-1);
  if (chosen === undefined) return null;
  const best = largest(root.value, cluster.value, name, chosen * unitOf(name));
  const levels = ["cluster", ...topology.value.levels.slice(0, -1).map((level) => level.name)];
  return (
    <>
      <div class="key k3">
        <h2>
          Could start now, pods of{" "}
          <span class="pick small">
            <select aria-label={`${unitName(name)} of each pod`} value={chosen} onChange={(event) => (size.value = Number(event.currentTarget.value))}>
              {sizes.map((each) => (
                <option key={each} value={each}>
                  {each}
                </option>
              ))}
            </select>
            <Icon name="down" size={12} />
          </span>
          <span class="far">{unitName(name)}</span>
        </h2>
        <div class="cols">
          {best
            .map((each, depth) => ({ ...each, level: levels[depth] ?? "" }))
            .reverse()
            .slice(0, 4)
            .map(({ count, path, level }) => (
              <div key={level} title={`${path.join(" / ") || "the whole cluster"}, without evictions`}>
                <span class="big">{written("pods", count)}</span>
                <span class="clip">{domainOf(level, count ? path : [])}</span>
              </div>
            ))}
        </div>
      </div>
      <Fragmentation pod={chosen} />
    </>
  );
}

function Fragmentation({ pod }: { pod: number }) {
  const name = resource.value;
  const parts = scattered(root.value, cluster.value, name, pod * unitOf(name));
  const share = parts.free ? Math.round((parts.scattered / parts.free) * 100) : 0;
  const text = `${written(name, parts.scattered)} of ${written(name, parts.free)} free`;
  return (
    <div class="key k4" title={`Free ${unitName(name)} on nodes that cannot take a pod of ${pod}`}>
      <h2>Fragmentation</h2>
      <div>
        <div class="big">{share} %</div>
        <span class="clip muted small">
          {text}
          <span class="far"> {unitName(name)}</span> scattered
        </span>
      </div>
    </div>
  );
}

export function Keys() {
  const { kind } = connection.value;
  if (reading.value || kind === "refused")
    return (
      <section class="keys" aria-label="Key figures">
        {["Capacity", "Gangs", "Could start now", "Fragmentation"].map((title, at) => (
          <div key={title} class={`key k${at + 1}`}>
            <h2>{title}</h2>
            <div class={reading.value ? "sk big wait-figure" : "big"}>{reading.value ? "" : "–"}</div>
          </div>
        ))}
      </section>
    );
  return (
    <section class="keys" aria-label="Key figures">
      <Capacity />
      <Phases />
      <Fits />
    </section>
  );
}
