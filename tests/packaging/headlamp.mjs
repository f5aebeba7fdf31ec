// Runs the plugin's bundle as Headlamp does: with the global `pluginLib`. Its functions record what the plugin registers, and
// elements are plain objects. Prints what was registered and drawn as JSON. node headlamp.mjs BUNDLE SOURCES GANG-AS-JSON

import { readFile } from "node:fs/promises";
import { pathToFileURL } from "node:url";
import vm from "node:vm";

const [bundle, sources, gang] = process.argv.slice(2);
const seen = { sidebar: [], routes: [] };
const element = (type, props) => ({ type, props });
const named = (name) => Object.assign(() => undefined, { shown: name });
const pluginLib = {
  registerSidebarEntry: (entry) => seen.sidebar.push(entry),
  registerRoute: (route) => seen.routes.push(route),
  ReactJSX: { jsx: element, jsxs: element, Fragment: "Fragment" },
  ReactRouter: { useParams: () => ({ namespace: "default", name: "llm" }) },
  CommonComponents: Object.fromEntries(
    ["ConditionsTable", "DetailsGrid", "ResourceListView", "SectionBox", "SimpleTable", "StatusLabel"].map((name) => [name, named(name)]),
  ),
  Crd: {
    makeCustomResourceClass: (asked) => {
      seen.asked = asked;
      return class {
        constructor(json) {
          this.jsonData = json;
        }
      };
    },
  },
};

/** The texts of an element, with all that is inside. */
function texts(node) {
  if (node === null || node === undefined || typeof node === "boolean") return [];
  if (Array.isArray(node)) return node.flatMap(texts);
  if (typeof node !== "object") return [String(node)];
  const { type, props } = node;
  if (typeof type === "function" && !type.shown) return texts(type(props));
  const rows = (props.data ?? []).flatMap((each) => props.columns.map(({ getter }) => String(getter(each))));
  return [...(props.title ? [props.title] : []), ...rows, ...texts(props.children)];
}

vm.runInThisContext(`(pluginLib) => {${await readFile(bundle, "utf8")}}`)(pluginLib);
const [list, detail] = seen.routes.map(({ component }) => component().type());
const shown = new list.props.resourceClass(JSON.parse(gang));
seen.columns = list.props.columns.filter((each) => each.id).map((each) => [each.label, each.getValue(shown)]);
seen.info = detail.props.extraInfo(shown).map(({ name, value }) => [name, texts(value).join("")]);
seen.sections = detail.props.extraSections(shown).map(({ id, section }) => [id, texts(section)]);
const { toneOf } = await import(pathToFileURL(`${sources}/gang.ts`).href);
seen.tones = Object.fromEntries(["Waiting", "Unplaceable", "Invalid", "Nominated", "Evicting", "Released", "Placed", ""].map((phase) => [phase, toneOf({ phase })]));
seen.never = toneOf({ phase: "Unplaceable", reason: "NeverFits" });
console.log(JSON.stringify(seen));
