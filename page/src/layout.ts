// The geometry of the picture: a rack is a row of nodes, the domains above racks are panels, and wider domains are sections.
// Every node has the same size. A rack with fewer nodes ends earlier.

import type { Place } from "./tree";

/** A rectangle of the picture, in pixels at zoom 1. */
export interface Box {
  x: number;
  y: number;
  w: number;
  h: number;
}

export interface Cell extends Box {
  place: Place;
  row: Row;
}

/** A rack: the deepest domain above the nodes. The box includes its label and its figure. */
export interface Row extends Box {
  place: Place;
  cells: Cell[];
  panel: Panel;
}

/** The rows of one domain, such as a block. */
export interface Panel extends Box {
  place: Place;
  rows: Row[];
  /** Whether the panel has a frame and a title line. The whole picture of one domain has none. */
  framed: boolean;
}

/** A title line above the panels of a wide domain, such as a spine. */
export interface Title extends Box {
  place: Place;
}

export interface Layout {
  width: number;
  height: number;
  titles: Title[];
  panels: Panel[];
  /** The size of every node. */
  cell: { w: number; h: number };
  /** The width left of the cells for the name of a rack, and right of them for its figure; 0 if they have no space. */
  label: number;
  figure: number;
}

const PAD = 12;
const GAP = 12;
const TITLE = 22;
const PANEL_TITLE = 24;
const PANEL_PAD = 6;
const ROW_GAP = 3;
const FIGURE = 40;
/** The height and width in pixels from which a node has space beside it for the labels of its rack. */
const LABELLED = 12;
/** The weight of a plan with the names of racks beside one without. */
const LABELS = 1.7;
/** The largest node, in pixels, and the most that its height may exceed its width. */
const LARGEST_CELL = 72;
const MOST_SLENDER = 2.4;
/** The weight of a plan that continues racks on a second line: the picture keeps its shape when its area becomes narrower. */
const FOLDED = 0.6;

interface Group {
  title?: Place;
  panels: { place: Place; rows: Place[]; framed: boolean }[];
}

function isRow(place: Place): boolean {
  return place.inside !== undefined && (place.inside.length === 0 || place.inside.every((each) => !each.inside));
}

/** The domains below a place as groups of panels of rows. */
function groupsOf(root: Place): Group[] {
  if (isRow(root)) return [{ panels: [{ place: root, rows: [root], framed: false }] }];
  const inside = root.inside ?? [];
  if (inside.every(isRow)) return [{ panels: [{ place: root, rows: inside, framed: false }] }];
  if (inside.every((each) => each.inside?.every(isRow)))
    return [{ panels: inside.map((place) => ({ place, rows: place.inside ?? [], framed: true })) }];
  return inside.flatMap((each) => {
    const [first, ...rest] = groupsOf(each);
    if (!first) return [];
    return [{ title: each, panels: first.panels.map((panel) => ({ ...panel, framed: true })) }, ...rest];
  });
}

interface Plan {
  columns: number;
  /** Nodes of a rack beside each other before the rack goes on below. */
  wide: number;
  cellW: number;
  cellH: number;
  label: number;
  figure: number;
}

/** The widest name of a rack in pixels, estimated from its letters. */
function labelWidth(groups: Group[]): number {
  let letters = 0;
  for (const group of groups) for (const panel of group.panels) for (const row of panel.rows) letters = Math.max(letters, row.name.length);
  return Math.min(140, 16 + letters * 7);
}

function lines(nodes: number, wide: number): number {
  return Math.max(1, Math.ceil(nodes / wide));
}

/** Lay out a domain on an area of this size. The largest possible nodes win among all numbers of columns.
 *
 * `least`: the least height of a node; the picture is higher than the area if it must be. */
export function laidOut(root: Place, width: number, height: number, least = 0): Layout {
  const groups = groupsOf(root);
  const longest = Math.max(1, ...groups.flatMap((group) => group.panels.flatMap((panel) => panel.rows.map((row) => row.inside?.length ?? 1))));
  const most = Math.max(1, ...groups.map((group) => group.panels.length));
  const rowsOf = (panel: Group["panels"][number], wide: number): number =>
    panel.rows.reduce((sum, row) => sum + lines(row.inside?.length ?? 0, wide), 0);
  const wides = [...new Set([1, 2, 3, 4, 6, 8, 12, 16, 24, 32].map((parts) => Math.ceil(longest / parts)))];
  const name = labelWidth(groups);
  let best: Plan | undefined;
  let score = -1;
  for (const wide of wides) {
    const sizes = groups.map((group) => group.panels.map((panel) => ({ lines: rowsOf(panel, wide), rows: panel.rows.length, framed: panel.framed })));
    for (let columns = 1; columns <= Math.min(most, 40); columns += 1) {
      let [unit, fixed] = [0, 2 * PAD - GAP];
      sizes.forEach((panels, at) => {
        if (groups[at]?.title) fixed += TITLE;
        for (let first = 0; first < panels.length; first += columns) {
          const beside = panels.slice(first, first + columns);
          unit += Math.max(...beside.map((each) => each.lines));
          fixed += GAP + Math.max(...beside.map((each) => each.lines * ROW_GAP + (each.framed ? PANEL_TITLE + PANEL_PAD : 0)));
        }
      });
      const panelW = (width - 2 * PAD - GAP * (columns - 1)) / columns - 2 * PANEL_PAD;
      const cellH = Math.max(least, (height - fixed) / unit);
      for (const labelled of [true, false]) {
        const [label, figure] = labelled ? [name, FIGURE] : [0, 0];
        const cellW = (panelW - label - figure) / wide;
        if (labelled && Math.min(cellW, cellH) < LABELLED) continue;
        const [w, h] = [Math.min(LARGEST_CELL, cellW), Math.min(LARGEST_CELL, cellH, cellW * MOST_SLENDER)];
        const area = Math.min(w, h * 1.2) * (labelled ? LABELS : 1) * (wide < longest ? FOLDED : 1);
        if (area > score) [best, score] = [{ columns, wide, cellW: w, cellH: h, label, figure }, area];
      }
    }
  }
  return placed(groups, best ?? { columns: 1, wide: longest, cellW: 1, cellH: 1, label: 0, figure: 0 }, width);
}

function placed(groups: Group[], plan: Plan, width: number): Layout {
  const { columns, wide, label, figure } = plan;
  const cell = { w: Math.max(0.5, plan.cellW), h: Math.max(0.5, plan.cellH) };
  const layout: Layout = { width, height: 0, titles: [], panels: [], cell, label, figure };
  const panelW = (width - 2 * PAD - GAP * (columns - 1)) / columns;
  let y = PAD;
  for (const group of groups) {
    if (group.title) {
      layout.titles.push({ place: group.title, x: PAD, y, w: width - 2 * PAD, h: TITLE });
      y += TITLE;
    }
    for (let first = 0; first < group.panels.length; first += columns) {
      let lowest = y;
      group.panels.slice(first, first + columns).forEach((each, at) => {
        const x = PAD + at * (panelW + GAP);
        const panel: Panel = { place: each.place, framed: each.framed, rows: [], x, y, w: panelW, h: 0 };
        let top = y + (each.framed ? PANEL_TITLE : 0);
        for (const place of each.rows) {
          const nodes = place.inside ?? [];
          const h = lines(nodes.length, wide) * (cell.h + ROW_GAP);
          const row: Row = { place, cells: [], panel, x: x + PANEL_PAD, y: top, w: panelW - 2 * PANEL_PAD, h };
          nodes.forEach((node, index) => {
            const [column, line] = [index % wide, Math.floor(index / wide)];
            const left = x + PANEL_PAD + label + column * cell.w;
            row.cells.push({ place: node, row, x: left, y: top + line * (cell.h + ROW_GAP), w: cell.w, h: cell.h });
          });
          panel.rows.push(row);
          top += h;
        }
        panel.h = top - y + (each.framed ? PANEL_PAD : 0);
        lowest = Math.max(lowest, y + panel.h);
        layout.panels.push(panel);
      });
      y = lowest + GAP;
    }
  }
  layout.height = y - GAP + PAD;
  return layout;
}

function within(box: Box, x: number, y: number): boolean {
  return box.x <= x && x < box.x + box.w && box.y <= y && y < box.y + box.h;
}

/** The deepest thing at a point: a node, a rack, a panel or a title; undefined outside of all. */
export function at(layout: Layout, x: number, y: number): Place | undefined {
  const title = layout.titles.find((each) => within(each, x, y));
  if (title) return title.place;
  const panel = layout.panels.find((each) => within(each, x, y));
  const row = panel?.rows.find((each) => within(each, x, y));
  return row?.cells.find((each) => within(each, x, y))?.place ?? row?.place ?? (panel?.framed ? panel.place : undefined);
}
