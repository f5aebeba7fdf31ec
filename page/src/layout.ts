// Where each domain and node lies: rectangles within rectangles (a squarified treemap, as d3-hierarchy lays it out).

import { hierarchy, type HierarchyRectangularNode, treemap } from "d3-hierarchy";

import type { Place } from "./tree";

export type Laid = HierarchyRectangularNode<Place>;

/** The band of a domain in which its name stands: a share of its height, at most so many pixels. */
const BAND = 0.16;
const HIGHEST_BAND = 20;
/** Pixels around what lies in a domain, by its depth; deeper ones have the last. */
const MARGINS = [0, 3, 1];

function margin(depth: number): number {
  return MARGINS[Math.min(depth, MARGINS.length - 1)] ?? 0;
}

/** A domain and all in it, on a picture of that size. All nodes are as large as one another, as far as they can be. */
export function laid(place: Place, width: number, height: number): Laid {
  const root = hierarchy<Place>(place, (each) => each.inside).count();
  return treemap<Place>()
    .size([width, height])
    .paddingOuter((each) => (each.children ? margin(each.depth) : 0))
    .paddingTop((each) => band(each as Laid))
    .paddingInner((each) => (each.depth ? 0 : 2))(root);
}

/** The height of the band of a domain; none where it is drawn as the whole. */
export function band(domain: Laid): number {
  if (!domain.depth) return 0;
  return Math.max(margin(domain.depth), Math.min(HIGHEST_BAND, (domain.y1 - domain.y0) * BAND));
}

/** The deepest domain or node there; undefined beside the picture. */
export function at(root: Laid, x: number, y: number): Laid | undefined {
  const within = (each: Laid): boolean => each.x0 <= x && x < each.x1 && each.y0 <= y && y < each.y1;
  let found = within(root) ? root : undefined;
  for (let inner = found; inner; inner = inner.children?.find(within)) found = inner;
  return found;
}
