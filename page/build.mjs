// Bundles the page's script into the webhook's package, with the licences of what went into it at its end.

import { readFile } from "node:fs/promises";
import { dirname } from "node:path";

import { build } from "esbuild";

const options = { entryPoints: ["src/main.tsx"], bundle: true, jsx: "automatic", jsxImportSource: "preact", minify: true, format: "iife", target: "es2022" };
const { metafile } = await build({ ...options, write: false, metafile: true });
const folders = new Set(Object.keys(metafile.inputs).flatMap((path) => path.match(/^node_modules\/(@[^/]+\/)?[^/]+/)?.[0] ?? []));
const licences = [];
for (const folder of [...folders].sort()) {
  const { name, version, license } = JSON.parse(await readFile(`${folder}/package.json`, "utf8"));
  licences.push(`${name} ${version} (${license})\n\n${(await readFile(`${folder}/LICENSE`, "utf8")).trim()}`);
}
const outfile = "../webhook/live_view/page.js";
const footer = { js: `/*\n${licences.join("\n\n").replaceAll("*/", "* /")}\n*/` };
const built = await build({ ...options, outfile, footer, metafile: true, logLevel: "warning" });
console.log(`${dirname(outfile)}/page.js: ${built.metafile.outputs[outfile].bytes} bytes, with the licences of ${folders.size} packages`);
