// The panel with the picture of the cluster, its path and its legend.

import { useEffect, useLayoutEffect, useRef } from "preact/hooks";

import { gangsByNode, largestRequest, titleOf, unitName, written } from "./data";
import { FOUND_COLOURS } from "./colours";
import { looks, toldOf } from "./looks";
import { Notice } from "./parts";
import { Picture } from "./picture";
import {
  chosenResource,
  cluster,
  connection,
  dark,
  domainSums,
  found,
  framed,
  gangs,
  hoveredGang,
  openDomain,
  place,
  reading,
  resource,
  SCARCEST,
  screen,
  selectedGang,
  selectedStory,
  selection,
  tab,
  topology,
  trying,
  close,
} from "./state";
import { nodesIn, pathKey, type Place, placeAt } from "./tree";

/** The least height of a node on a phone in pixels: the picture scrolls. */
const LEAST_ON_PHONES = 26;
/** The most nodes for which a phone's picture grows beyond its area. */
const MOST_ON_PHONES = 600;

function Crumbs() {
  const names = [topology.value.name || "all nodes", ...place.value.path];
  return (
    <nav class="crumbs" aria-label="Path of the picture">
      {names.map((name, at) => {
        const last = at === names.length - 1;
        return (
          <>
            {at ? <i aria-hidden="true">/</i> : null}
            <button type="button" aria-current={last ? "location" : undefined} onClick={() => (at || trying.value ? openDomain(names.slice(1, at + 1)) : close())}>
              {name}
            </button>
          </>
        );
      })}
    </nav>
  );
}

function Legend() {
  const gang = selectedGang.value;
  const near = (selectedStory.value?.explanation?.nearest ?? []).length > 0;
  const has = gang?.members.some((member) => member.node || member.nominatedNode);
  return (
    <ul class="legend">
      {gang && near ? (
        <li>
          <i class="sw n" /> capacity it could use
        </li>
      ) : null}
      {gang && has ? (
        <li>
          <i class={gang.planned ? "sw plan" : "sw on"} /> {gang.planned ? "your plan" : gang.name}
        </li>
      ) : null}
      {gang
        ? null
        : found.value.slice(0, FOUND_COLOURS).map((each, at) => (
            <li key={titleOf(each)}>
              <i class={`sw g${at}`} /> {each.name}
            </li>
          ))}
      <li>
        <i class="sw u" /> used
      </li>
      <li>
        <i class="sw r" /> reserved
      </li>
      <li>
        <i class="sw t" /> terminating
      </li>
      <li>
        <i class="sw f" /> free
      </li>
      <li>
        <i class="sw x" /> closed
      </li>
    </ul>
  );
}

/** The paths of domains that nearly fit the selected gang, with the text for each, and their nodes. */
function nearOf(): { near: Map<string, string>; fits: Set<string> } {
  const near = new Map<string, string>();
  const fits = new Set<string>();
  for (const each of selectedStory.value?.explanation?.nearest ?? []) {
    if (!each.fits) continue;
    const deepest = each.path.length === topology.value.levels.length - 1;
    near.set(pathKey(each.path), deepest ? `${each.fits}/${each.needed}` : `fits ${each.fits} of ${each.needed}`);
    for (const { name } of nodesIn(placeAt(topology.value, each.path))) fits.add(name);
  }
  return { near, fits };
}

/** The amount of a node's capacity in words, for the line on the right of the panel's title. */
function scale(): string {
  const name = resource.value;
  if (chosenResource.value === SCARCEST) return "1 cell = 1 node, by its scarcest resource";
  const amounts = new Set(Object.values(cluster.value.nodes).map((node) => node.allocatable[name] ?? 0));
  const [only] = amounts;
  return amounts.size === 1 && only ? `1 cell = 1 node, ${written(name, only)} ${unitName(name)}` : "1 cell = 1 node";
}

function Canvas() {
  const canvas = useRef<HTMLCanvasElement>(null);
  const tip = useRef<HTMLDivElement>(null);
  const said = useRef<HTMLParagraphElement>(null);
  const picture = useRef<Picture | undefined>(undefined);
  const name = resource.value;
  const shown = chosenResource.value === SCARCEST ? "" : name;
  const here = gangsByNode(gangs.value);

  // The picture follows the state before the next key or click arrives: five arrows typed at once count from the new domain.
  useLayoutEffect(() => {
    if (!canvas.current) return undefined;
    const tell = (found: Place | undefined, event: PointerEvent): void => {
      const element = tip.current;
      if (!element) return;
      element.hidden = !found?.path.length || event.pointerType === "touch";
      if (!found?.path.length) return;
      element.textContent = telling.current(found);
      const [left, top] = [event.clientX + 14, event.clientY + 14];
      element.style.left = `${Math.min(left, innerWidth - element.offsetWidth - 8)}px`;
      element.style.top = `${Math.min(top, innerHeight - element.offsetHeight - 8)}px`;
    };
    const reach = (found: Place): void => {
      if (said.current) said.current.textContent = telling.current(found).replaceAll("\n", ", ");
    };
    const made = new Picture(canvas.current, openDomain, tell, reach);
    picture.current = made;
    const watching = new ResizeObserver(() => redraw.current());
    if (canvas.current.parentElement) watching.observe(canvas.current.parentElement);
    return () => watching.disconnect();
  }, []);

  const sums = domainSums.value;
  const figure = (domain: Place): string => {
    const sum = sums.get(pathKey(domain.path));
    if (!sum) return "";
    const free = written(name, sum.free);
    const depth = domain.path.length;
    const deepest = depth === topology.value.levels.length - 1;
    return deepest ? free : depth === topology.value.levels.length - 2 ? `${free} free` : `${free} free of ${written(name, sum.all)}`;
  };
  const telling = useRef<(found: Place) => string>(() => "");
  telling.current = (found) => {
    if (!found.inside) return toldOf(cluster.value, found.name, shown, here.get(found.name) ?? [], written);
    const sum = sums.get(pathKey(found.path));
    return `${found.path.join(" / ")}\n${sum?.nodes.toLocaleString("en") ?? 0} nodes, ${written(name, sum?.free ?? 0)} of ${written(name, sum?.all ?? 0)} ${unitName(name)} free`;
  };

  const { near, fits } = nearOf();
  const gang = selectedGang.value;
  const phone = innerWidth <= 900 && [...nodesIn(place.value)].length <= MOST_ON_PHONES;
  const view = {
    root: place.value,
    look: remembered(
      looks({
        cluster: cluster.value,
        resource: shown,
        selected: gang,
        found: found.value,
        fits,
        request: gang ? largestRequest(gang, name) : 0,
        framed: framed.value,
        hovered: hoveredGang.value,
      }),
    ),
    figure,
    note: (domain: Place) => `${sums.get(pathKey(domain.path))?.nodes.toLocaleString("en") ?? 0} nodes`,
    near,
    muted: gang !== undefined || found.value.length > 0,
    least: phone ? LEAST_ON_PHONES : 0,
  };
  const redraw = useRef(() => {});
  redraw.current = () => picture.current?.draw(view);
  void [tab.value, screen.value];
  useLayoutEffect(() => redraw.current());
  const theme = dark.value;
  useEffect(() => picture.current?.recolour(), [theme]);
  const root = place.value;
  useEffect(() => {
    if (tip.current) tip.current.hidden = true; // what it names may be in the picture no more
  }, [root]);

  return (
    <div class="fabric">
      <canvas
        ref={canvas}
        class="cells"
        tabIndex={0}
        role="application"
        aria-label="The cluster. Arrow keys go from domain to domain, Enter opens one, Backspace goes back."
      />
      <div ref={tip} class="tip" hidden />
      <p ref={said} class="sr" aria-live="polite" />
    </div>
  );
}

/** Each look is computed once for a drawing, however often the picture is zoomed. */
function remembered<T>(of: (name: string) => T): (name: string) => T {
  const known = new Map<string, T>();
  return (name) => {
    let value = known.get(name);
    if (value === undefined) known.set(name, (value = of(name)));
    return value;
  };
}

/** The whole cluster in tables: the same facts as the picture. */
function asTable(): void {
  openDomain([]);
}

export function ClusterPanel() {
  const { kind } = connection.value;
  return (
    <section class="panel" id="picture" aria-label="The cluster">
      <div class="head">
        <Crumbs />
        <span class="push muted nw scale">{reading.value || kind === "refused" ? "" : scale()}</span>
        <button type="button" class="btn small as-table" aria-pressed={selection.value?.kind === "domain"} onClick={asTable} hidden={trying.value || place.value.path.length > 0}>
          Table
        </button>
      </div>
      {reading.value ? (
        <div class="fabric skeleton" aria-hidden="true">
          {[0, 1, 2, 3].map((at) => (
            <div key={at} class="sk" />
          ))}
        </div>
      ) : kind === "refused" ? (
        <Notice icon="warn" title="You may not view this cluster" text={`${connection.value.kind === "refused" ? connection.value.why : ""} Ask an administrator for the ClusterRole phalanx-viewer.`}>
          <button type="button" class="btn primary" onClick={() => location.reload()}>
            Try again
          </button>
        </Notice>
      ) : (
        <>
          <Canvas />
          <Legend />
        </>
      )}
    </section>
  );
}

