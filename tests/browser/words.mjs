// Bundles a module of the page, and evaluates an expression in which `module` is the module. Prints the value as JSON.
// node words.mjs MODULE EXPRESSION

import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";

const [name, expression] = process.argv.slice(2);
const page = fileURLToPath(new URL("../../page/", import.meta.url));
const { build } = createRequire(`${page}package.json`)("esbuild");
const options = { bundle: true, write: false, format: "iife", globalName: "module", jsx: "automatic", jsxImportSource: "preact" };
const { outputFiles } = await build({ ...options, entryPoints: [`${page}src/${name}`] });
console.log(JSON.stringify(new Function(`${outputFiles[0].text}; return ${expression};`)()));
