// The drawer "Try it": objects and what-if options on the left, the result on the right.

import { useEffect, useRef } from "preact/hooks";

import { GangDetail } from "./detail";
import { Icon } from "./icons";
import { Notice } from "./parts";
import { phaseOf } from "./phases";
import { close, shownTrial, trial, trialGang, trials } from "./state";
import { clearAll, evictions, fields, OPTIONS, plan, progress, text } from "./trying-state";
import { titleOf } from "./data";

const EXAMPLE = `apiVersion: batch/v1
kind: Job
metadata:
  name: tried
  annotations:
    phalanx.dev/gang: "true"
    phalanx.dev/required: rack
spec:
  parallelism: 3
  completions: 3
  template:
    spec:
      restartPolicy: Never
      containers:
      - name: main
        image: example.com/trainer
        resources:
          requests: {cpu: 1}`;

async function read(file: File | undefined): Promise<void> {
  if (file) text.value = await file.text();
}

function Editor() {
  const gutter = useRef<HTMLPreElement>(null);
  const file = useRef<HTMLInputElement>(null);
  const failed = progress.value.kind === "failed" ? progress.value.mistakes : [];
  const wrong = new Set(failed.map((each) => each.line));
  const lines = Math.max(EXAMPLE.split("\n").length, text.value.split("\n").length);
  return (
    <>
      <div class="ed">
        <pre ref={gutter} aria-hidden="true">
          {Array.from({ length: lines }, (_, at) => (
            <span key={at} class={wrong.has(at + 1) ? "wrong" : ""}>{`${at + 1}\n`}</span>
          ))}
        </pre>
        <textarea
          spellcheck={false}
          aria-label="Kubernetes objects, YAML or JSON"
          aria-invalid={failed.length > 0}
          placeholder={EXAMPLE}
          value={text.value}
          onInput={(event) => (text.value = event.currentTarget.value)}
          onScroll={(event) => gutter.current && (gutter.current.scrollTop = event.currentTarget.scrollTop)}
          onDragOver={(event) => event.preventDefault()}
          onDrop={(event) => {
            const dropped = event.dataTransfer?.files[0];
            if (!dropped) return;
            event.preventDefault();
            void read(dropped);
          }}
        />
      </div>
      {failed.map((each) => (
        <p key={each.text} class="mistake" role="alert">
          <Icon name="warn" tone="out" />
          {each.line ? <b>Line {each.line}</b> : null} {each.text}
        </p>
      ))}
      <p class="muted small">
        Any object that makes a gang. Drop a file,{" "}
        <button type="button" class="link" onClick={() => file.current?.click()}>
          open a file
        </button>{" "}
        or{" "}
        <button type="button" class="link" onClick={() => (text.value = EXAMPLE)}>
          use an example
        </button>
        .
      </p>
      <input ref={file} class="sr" type="file" tabIndex={-1} aria-label="File with objects" accept=".yaml,.yml,.json" onChange={(event) => void read(event.currentTarget.files?.[0])} />
    </>
  );
}

export function TryPanel() {
  const state = progress.value;
  return (
    <section class="panel" id="trypanel" aria-label="Try it">
      <div class="head">
        <h2>Try it</h2>
        <span class="muted try-note">nothing is created</span>
        <button type="button" class="btn icon push" aria-label="Close" title="Close (Esc)" onClick={close}>
          <Icon name="x" />
        </button>
      </div>
      <div class="tin">
        <Editor />
        <fieldset class="opts">
          <legend>What if</legend>
          <div class="opt">
            {OPTIONS.map(([name, label, example]) => (
              <label key={name}>
                <span>{label}</span>
                <input
                  type="text"
                  placeholder={example}
                  value={fields.value[name] ?? ""}
                  onInput={(event) => (fields.value = { ...fields.value, [name]: event.currentTarget.value })}
                />
              </label>
            ))}
            <label>
              <span>Evictions</span>
              <span class="check">
                <input type="checkbox" checked={evictions.value} aria-label="Evictions allowed" onChange={(event) => (evictions.value = event.currentTarget.checked)} /> allowed
              </span>
            </label>
          </div>
        </fieldset>
      </div>
      <div class="foot">
        <button type="button" class="btn primary" disabled={state.kind === "planning"} onClick={() => void plan()}>
          Plan it
        </button>
        <span class="muted" role="status">
          {state.kind === "planning" ? "Planning…" : state.kind === "planned" ? `planned in ${state.seconds.toFixed(1)} s` : ""}
        </span>
        <button type="button" class="btn small push" onClick={clearAll}>
          Clear
        </button>
      </div>
    </section>
  );
}

function Variants() {
  if (trials.value.length < 2) return null;
  return (
    <div class="alt" role="group" aria-label="Variants">
      {trials.value.map((each, at) => {
        const gang = each.gangs[trialGang.value];
        const phase = gang && phaseOf(gang);
        return (
          <button key={each.label} type="button" aria-pressed={trial.value === at} onClick={() => (trial.value = at)}>
            <span class="clip" title={each.label}>
              {each.label}
            </span>
            {phase ? (
              <b>
                <Icon name={phase.icon} tone={phase.tone} />
                {phase.label}
              </b>
            ) : null}
          </button>
        );
      })}
    </div>
  );
}

/** The gangs of a plan, if there are several. */
function Planned() {
  const gangs = shownTrial.value?.gangs ?? [];
  if (gangs.length < 2) return null;
  return (
    <label class="gangs-tried">
      <span class="muted">Gang </span>
      <select value={trialGang.value} onChange={(event) => (trialGang.value = Number(event.currentTarget.value))}>
        {gangs.map((gang, at) => (
          <option key={titleOf(gang)} value={at}>
            {titleOf(gang)}: {phaseOf(gang).label}
          </option>
        ))}
      </select>
    </label>
  );
}

/** The widest window, in CSS pixels, in which the result is below the drawer. As in page.css. */
const NARROW = "(max-width: 720px)";

export function TryResult() {
  const state = progress.value;
  const over = state.kind === "planned" || state.kind === "failed";
  useEffect(() => {
    if (over && matchMedia(NARROW).matches) document.getElementById("detail")?.scrollIntoView({ block: "start" });
  }, [over]);
  const shown = shownTrial.value;
  const gang = shown?.gangs[trialGang.value];
  if (shown && gang)
    return (
      <GangDetail
        gang={gang}
        controls={
          <button type="button" class="btn small" onClick={shown.share}>
            Share as a file
          </button>
        }
        above={
          <>
            <Variants />
            <Planned />
            {shown.warnings ? <p class="mistake">{shown.warnings}</p> : null}
          </>
        }
      />
    );
  return (
    <section class="panel" id="detail" aria-label="Result">
      {state.kind === "failed" ? (
        <div role="alert" class="failed">
          <Notice icon="warn" title="There is no plan" text={state.why} />
        </div>
      ) : state.kind === "planning" ? (
        <Notice icon="room" title="Planning…" text="The plan takes at most half a minute." />
      ) : shown ? (
        <Notice icon="find" title="Nothing to plan" text="The input asks for no gang." />
      ) : (
        <Notice icon="try" title="No plan yet" text="Enter a manifest or a what-if, then choose “Plan it”. The result appears here and in the picture." />
      )}
    </section>
  );
}
