// Builds the plugin into headlamp/dist with the page's esbuild. Headlamp has the libraries: it gives them to plugins in the
// global `pluginLib`, under the names that its own build tool uses (@kinvolk/headlamp-plugin, config/vite.config.mjs).
// node build.mjs [FOLDER]

import { copyFile, mkdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const { build } = createRequire(join(here, "..", "page", "package.json"))("esbuild");
const folder = process.argv[2] ?? join(here, "dist");

const GLOBALS = {
  "react/jsx-runtime": "pluginLib.ReactJSX",
  "react-router-dom": "pluginLib.ReactRouter",
  "@kinvolk/headlamp-plugin/lib": "pluginLib",
  "@kinvolk/headlamp-plugin/lib/CommonComponents": "pluginLib.CommonComponents",
  "@kinvolk/headlamp-plugin/lib/lib/k8s/crd": "pluginLib.Crd",
};

const provided = {
  name: "provided",
  setup(at) {
    at.onResolve({ filter: /^[^./]/ }, ({ path, kind }) => {
      if (kind === "entry-point") return undefined;
      return path in GLOBALS ? { path, namespace: "provided" } : { errors: [{ text: `Headlamp does not provide ${path}` }] };
    });
    at.onLoad({ filter: /.*/, namespace: "provided" }, ({ path }) => ({ contents: `module.exports = ${GLOBALS[path]};` }));
  },
};

await mkdir(folder, { recursive: true });
const { metafile } = await build({
  entryPoints: [join(here, "src", "index.tsx")],
  outfile: join(folder, "main.js"),
  bundle: true,
  format: "iife",
  jsx: "automatic",
  metafile: true,
  minify: true,
  plugins: [provided],
  target: "es2022",
  tsconfigRaw: {},
});
await copyFile(join(here, "package.json"), join(folder, "package.json"));
const { size } = { size: (await readFile(join(folder, "main.js"))).length };
console.log(`${join(folder, "main.js")}: ${size} bytes of ${Object.keys(metafile.inputs).filter((name) => !name.startsWith("provided:")).length} sources`);
