// Looks at a page that is live: says that it is there, then when a gang has come to its phase, then what its story tells.
// Then tries what fits while a node is drained. node live.mjs ADDRESS GANG PHASE DRAINED FOLDER

import { join } from "node:path";

import { barriers, crumbs, detail, launched, watch } from "./browser.mjs";

const TRIED = `
apiVersion: batch/v1
kind: Job
metadata: {name: tried, namespace: default, annotations: {phalanx.dev/gang: "true", phalanx.dev/required: rack}}
spec:
  parallelism: 3
  completions: 3
  completionMode: Indexed
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: pause, resources: {requests: {cpu: 16}}}]
`;
const [address, gang, phase, drained, folder] = process.argv.slice(2);
const seen = { errors: [], elsewhere: [] };
const browser = await launched();
try {
  const page = await browser.newPage({ viewport: { width: 1400, height: 1000 } });
  watch(page, new URL(address).host, seen);
  await page.goto(address);
  await page.locator(".live b", { hasText: "Live" }).waitFor({ state: "attached", timeout: 60_000 });
  console.log("ready");
  const item = page.locator(`.item[data-gang$="${gang}"]`, { hasText: phase });
  await item.waitFor({ timeout: 120_000 });
  seen.at = Date.now() / 1000;
  await item.click();
  await page.locator("#detail .tl").waitFor();
  seen.story = await detail(page);
  const find = page.getByLabel("Find a gang, node or domain");
  await find.fill("r005");
  await find.press("Enter");
  seen.domain = await detail(page);
  await page.locator(".crumbs button").first().click();
  await page.waitForTimeout(500);
  const box = await page.locator("canvas").boundingBox();
  await page.mouse.click(box.x + 25, box.y + 18);
  seen.clicked = await crumbs(page);
  await page.locator(".crumbs button").first().click();
  await page.getByRole("button", { name: "Try it" }).first().click();
  await page.getByLabel("Kubernetes objects").fill(TRIED);
  await page.getByLabel("Drain").fill(drained);
  await page.getByRole("button", { name: "Plan it" }).click();
  await page.locator("#detail .lead").waitFor({ timeout: 60_000 });
  seen.tried = await page.locator(".alt button b").allTextContents();
  await detail(page);
  seen.nodes = await page.getByRole("region", { name: "Pods of the gang" }).locator("tbody td:last-child").allTextContents();
  seen.barriers = await barriers(page);
  await page.screenshot({ path: join(folder, "live.png") });
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));
