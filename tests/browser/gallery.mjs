// Opens every screen of the page with a real Chromium, at three widths, light and dark, and puts pictures of them into a
// folder (WebP). Prints what it saw as JSON. TOKEN=… node gallery.mjs ADDRESS ADDRESS-OF-AN-EMPTY-CLUSTER FOLDER [WIDTH…]

import { join } from "node:path";

import { barriers, launched, pictured, watch } from "./browser.mjs";

const [address, empty, folder, ...widths] = process.argv.slice(2);
const headers = { Authorization: `Bearer ${process.env.TOKEN ?? ""}` };
const SIZES = { 1400: 900, 1024: 768, 390: 844 };
/** Milliseconds until what moves has come to rest. */
const REST = 400;
const SCHEMES = ["light", "dark"];
/** Where axe looks: once at each width, since its look takes longer than all else. */
const JUDGED = new Set(["1400-dark", "1024-light", "390-light"]);
const TRIED = `apiVersion: batch/v1
kind: Job
metadata:
  name: my-training
  namespace: team-a
  annotations: {phalanx.dev/gang: "true", phalanx.dev/required: block}
spec:
  parallelism: 12
  completions: 12
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: pause
        resources: {limits: {nvidia.com/gpu: 8}}
`;

const opened = (query) => async (page) => {
  await page.goto(`${address}${query}`);
};
const detailed = (query) => async (page) => {
  await opened(query)(page);
  await page.locator("#detail .hd").waitFor();
  await page.waitForTimeout(REST);
};
const answered = (status, body) => async (page) => {
  await page.route("**/v1/**", (route) => route.fulfill({ status, json: body }));
  await opened("")(page);
  await page.locator("#picture .state, .state").first().waitFor({ state: "attached" });
};

/** By screen: what opens it. `small`: what a narrow window does after that. */
const SCREENS = {
  overview: async (page) => {
    await opened("")(page);
    await page.locator(".item[data-gang]").first().waitFor();
  },
  cluster: async (page) => {
    await opened("")(page);
    await page.locator(".item[data-gang]").first().waitFor();
    await page.locator(".bottom").getByRole("button", { name: "Cluster" }).click();
  },
  search: async (page) => {
    await opened("?q=pretrain")(page);
    await page.locator(".item[data-gang]").first().waitFor();
  },
  placed: detailed("?gang=team-a/pretrain-1"),
  waiting: detailed("?gang=team-a/eval"),
  quota: detailed("?gang=research/probe"),
  domain: detailed("?domain=s3/s3b2/s3b2r0"),
  queues: async (page) => {
    await opened("?view=queues")(page);
    await page.locator(".tiles").waitFor();
  },
  history: async (page) => {
    await opened("?view=history")(page);
    await page.locator(".hist tbody tr").first().waitFor();
  },
  try: async (page) => {
    await opened("")(page);
    await page.locator(".item[data-gang]").first().waitFor();
    await page.locator("body").press("t");
    await page.getByLabel("Kubernetes objects").fill(TRIED);
    await page.getByRole("button", { name: "Plan it" }).click();
    await page.locator("#detail .lead").waitFor({ timeout: 60_000 });
    await page.waitForTimeout(REST);
  },
  empty: async (page) => {
    await page.goto(empty);
    await page.locator(".state").first().waitFor();
  },
  loading: async (page) => {
    await page.route("**/v1/**", () => undefined);
    await opened("")(page);
  },
  denied: answered(403, { error: "user jane may not view gangs." }),
  disconnected: async (page) => {
    await opened("")(page);
    await page.locator(".item[data-gang]").first().waitFor();
    await page.route("**/v1/**", (route) => route.abort());
    await page.locator(".strip").waitFor({ timeout: 30_000 });
  },
};

const seen = { errors: {}, wide: [], barriers: {}, bytes: {} };
const browser = await launched();
try {
  for (const width of widths.length ? widths.map(Number) : Object.keys(SIZES).map(Number)) {
    for (const scheme of SCHEMES) {
      const viewport = { width, height: SIZES[width] };
      const context = await browser.newContext({ viewport, colorScheme: scheme, extraHTTPHeaders: headers });
      for (const [name, open] of Object.entries(SCREENS)) {
        if (name === "cluster" && width > 720) continue;
        const page = await context.newPage();
        const at = `${name}-${width}-${scheme}`;
        const noted = { errors: [], elsewhere: [] };
        watch(page, new URL(name === "empty" ? empty : address).host, noted);
        await open(page);
        await page.mouse.move(5, 5);
        await page.waitForTimeout(REST);
        seen.bytes[at] = await pictured(page, join(folder, `${at}.webp`));
        if (await page.evaluate(() => document.documentElement.scrollWidth > innerWidth)) seen.wide.push(at);
        if (JUDGED.has(`${width}-${scheme}`)) {
          const found = await barriers(page);
          if (found.length) seen.barriers[at] = found;
        }
        const unexpected = noted.errors.filter((text) => !(["denied", "disconnected", "loading"].includes(name) && text.includes("Failed to load resource")));
        if (unexpected.length || noted.elsewhere.length) seen.errors[at] = [...unexpected, ...noted.elsewhere];
        await page.close();
      }
      await context.close();
    }
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));
