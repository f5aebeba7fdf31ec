// Looks at a page that is live: says that it is there, then when a gang has come to its phase, then what its story tells.
// Then tries what fits while a node is drained. node live.mjs ADDRESS GANG PHASE DRAINED FOLDER

import { join } from "node:path";

import { barriers, launched, watch } from "./browser.mjs";

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
  await page.locator(".live", { hasText: "Live" }).waitFor({ state: "attached", timeout: 60_000 });
  console.log("ready");
  const button = page.locator(".gangs button", { hasText: `${gang} ${phase}` });
  await button.waitFor({ timeout: 120_000 });
  seen.at = Date.now() / 1000;
  await button.click();
  await page.locator(".timeline").waitFor();
  seen.story = await page.locator(".story").innerText();
  const crumbs = page.locator(".crumbs button");
  await page.getByLabel("Find a domain or node").fill("r005");
  await page.getByLabel("Find a domain or node").press("Enter");
  seen.domain = await page.locator(".domain").innerText();
  await crumbs.first().click();
  const box = await page.locator("canvas").boundingBox();
  await page.mouse.click(box.x + 15, box.y + 25);
  seen.clicked = await crumbs.allTextContents();
  await crumbs.first().click();
  await page.locator(".trying summary").click();
  await page.locator(".trying textarea").fill(TRIED);
  await page.getByLabel("Drained").fill(drained);
  await page.getByRole("button", { name: "Plan it" }).click();
  await page.locator(".trying li").first().waitFor({ timeout: 60_000 });
  seen.tried = await page.locator(".trying li").allTextContents();
  await page.getByText("The same in tables").click();
  const nodes = page.locator(".nodes tbody th").filter({ hasText: /^n\d/ });
  await nodes.first().waitFor();
  seen.nodes = await nodes.allTextContents();
  seen.barriers = await barriers(page);
  await page.screenshot({ path: join(folder, "live.png"), fullPage: true });
} finally {
  await browser.close();
}
console.log(JSON.stringify(seen));
