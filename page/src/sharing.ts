// A solved picture as a file: the page with the picture in it, which opens without any server and asks nobody. As
// `phalanx solve -o html` writes it (webhook/live_view/recorded.py).

import type { Cluster } from "./data";
import { made } from "./dom";
import type { Decision } from "./trying-state";

async function digest(text: string): Promise<string> {
  const bytes = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
  return `'sha256-${btoa(String.fromCharCode(...bytes))}'`;
}

/** The file's text. `style`, `script`: the page's own. */
async function written(decisions: Decision[], cluster: Cluster, style: string, script: string): Promise<string> {
  const safe = script.replace(/<\/(script)/gi, "<\\/$1").replace(/<!(--)/g, "<\\!$1");
  const data = JSON.stringify({ decisions, cluster }).replaceAll("<", "\\u003c");
  const nothing = "default-src 'none'; base-uri 'none'; form-action 'none'";
  const policy = `${nothing}; style-src ${await digest(style)}; script-src ${await digest(safe)}`;
  const file = document.implementation.createHTMLDocument(`Phalanx: ${decisions.length} gangs planned`);
  file.documentElement.lang = "en";
  file.head.prepend(
    made("meta", { charset: "utf-8" }),
    made("meta", { "http-equiv": "Content-Security-Policy", content: policy }),
    made("meta", { name: "viewport", content: "width=device-width, initial-scale=1" }),
  );
  file.head.append(made("style", {}, style));
  const when = `What would happen, as planned at ${new Date().toISOString()}. Nothing was changed.`;
  const picture = file.createElement("script");
  picture.type = "application/json";
  picture.id = "recorded";
  picture.textContent = data;
  const program = file.createElement("script");
  program.textContent = safe;
  file.body.append(made("header", {}, made("h1", {}, "Phalanx"), made("p", {}, when)), made("main"), picture, program);
  return `<!doctype html>\n${file.documentElement.outerHTML}\n`;
}

/** Hand the file to the browser, which keeps it where its user wants. */
export async function share(decisions: Decision[], cluster: Cluster): Promise<void> {
  const style = document.querySelector("style")?.textContent ?? "";
  const script = await (await fetch("page.js")).text();
  offer(await written(decisions, cluster, style, script), "text/html", "phalanx-plan.html");
}

/** Hand a text to the browser as a file of this name. */
export function offer(text: string, type: string, name: string): void {
  const address = URL.createObjectURL(new Blob([text], { type }));
  made("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
