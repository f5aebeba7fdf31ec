// Small parts that several panels share.

import type { ComponentChildren } from "preact";

import { copied, link } from "./linking";
import type { Sums } from "./figures";
import { Icon } from "./icons";
import type { PhaseShown } from "./phases";

/** A section of a detail. */
export function Section({ title, note, children }: { title: string; note?: ComponentChildren; children: ComponentChildren }) {
  return (
    <section class="sec">
      <h3>
        {title}
        {note ? <span>{note}</span> : null}
      </h3>
      {children}
    </section>
  );
}

/** A part that is folded until the user opens it. */
export function Fold({ title, note, children }: { title: string; note?: string; children: ComponentChildren }) {
  return (
    <details class="fold">
      <summary>
        {title}
        <span>{note}</span>
      </summary>
      <div>{children}</div>
    </details>
  );
}

export function PhaseTag({ phase }: { phase: PhaseShown }) {
  return (
    <span class={`tag ${phase.tone}`}>
      <Icon name={phase.icon} />
      {phase.label}
    </span>
  );
}

/** The namespace in grey, the name in bold. */
export function GangName({ namespace, name }: { namespace: string; name: string }) {
  return (
    <>
      <span class="ns">{namespace}/</span>
      <b>{name}</b>
    </>
  );
}

/** A bar of a share between 0 and 1. */
export function Bar({ share, tone }: { share: number; tone: string }) {
  return (
    <span class="prog" aria-hidden="true">
      <i style={{ width: `${Math.round(Math.min(1, Math.max(0, share)) * 100)}%`, background: `var(--${tone})` }} />
    </span>
  );
}

const STATES = [
  ["used", "u"],
  ["reserved", "r"],
  ["terminating", "t"],
  ["free", "f"],
  ["closed", "x"],
] as const;

/** The states of a domain's capacity as one bar. */
export function Stack({ sums, label }: { sums: Sums; label: (amount: number) => string }) {
  const shown = STATES.filter(([state]) => sums[state] > 0);
  if (!shown.length) return <div class="stack" />;
  return (
    <div class="stack" role="img" aria-label={shown.map(([state]) => `${label(sums[state])} ${state}`).join(", ")}>
      {shown.map(([state, mark]) => (
        <i key={state} class={mark} style={{ flexGrow: sums[state] }} />
      ))}
    </div>
  );
}

export function CopyLink() {
  return (
    <button type="button" class="btn icon" aria-label="Copy link" title={copied.value ? "Copied" : "Copy link"} onClick={() => void link()}>
      <Icon name={copied.value ? "finished" : "link"} />
    </button>
  );
}

/** What a panel shows instead of its content. */
export function Notice({ icon, title, text, code, children }: { icon: string; title: string; text: string; code?: string; children?: ComponentChildren }) {
  return (
    <div class="state">
      <div>
        <span class="ring">
          <Icon name={icon} />
        </span>
        <h3>{title}</h3>
        <p>{text}</p>
        {code ? <pre>{code}</pre> : null}
        {children ? <div class="btns">{children}</div> : null}
      </div>
    </div>
  );
}

/** A table with a head. The first cell of a row names the row. */
export function Table({ caption, titles, right = [], rows }: { caption: string; titles: string[]; right?: number[]; rows: ComponentChildren[][] }) {
  const side = (at: number): string => (right.includes(at) ? "rt" : "");
  return (
    <div class="wide" role="region" aria-label={caption} tabIndex={0}>
      <table>
        <caption class="sr">{caption}</caption>
        <thead>
          <tr>
            {titles.map((title, at) => (
              <th key={title} scope="col" class={side(at)}>
                {title}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((cells, row) => (
            <tr key={row}>
              {cells.map((cell, at) =>
                at ? (
                  <td key={at} class={side(at)}>
                    {cell}
                  </td>
                ) : (
                  <th key={at} scope="row">
                    {cell}
                  </th>
                ),
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
