// The plugin for Headlamp: the gangs of the cluster as a list, and one gang with its state and what would help.

import { registerRoute, registerSidebarEntry } from "@kinvolk/headlamp-plugin/lib";
import { ConditionsTable, DetailsGrid, ResourceListView, SectionBox, SimpleTable, StatusLabel } from "@kinvolk/headlamp-plugin/lib/CommonComponents";
import { makeCustomResourceClass } from "@kinvolk/headlamp-plugin/lib/lib/k8s/crd";
import { useParams } from "react-router-dom";

import { exclusions, type GangSpec, type GangStatus, type Near, stateOf, toneOf } from "./gang";

const LIST = "phalanx-gangs";
const DETAIL = "phalanx-gang";

/** The class of Gang objects. Its detail is this plugin's, not the one of custom resources. */
class Gang extends makeCustomResourceClass({
  apiInfo: [{ group: "phalanx.dev", version: "v1alpha1" }],
  isNamespaced: true,
  kind: "Gang",
  singularName: "gang",
  pluralName: "gangs",
}) {
  static get detailsRoute(): string {
    return DETAIL;
  }

  get status(): GangStatus {
    return (this.jsonData as { status?: GangStatus }).status ?? {};
  }

  get spec(): GangSpec {
    return (this.jsonData as { spec?: GangSpec }).spec ?? {};
  }
}

function State({ gang }: { gang: Gang }) {
  return <StatusLabel status={toneOf(gang.status)}>{stateOf(gang.status)}</StatusLabel>;
}

function Gangs() {
  return (
    <ResourceListView
      title="Gangs"
      resourceClass={Gang}
      columns={[
        "name",
        "namespace",
        { id: "state", label: "State", getValue: (gang: Gang) => stateOf(gang.status), render: (gang: Gang) => <State gang={gang} /> },
        { id: "pods", label: "Pods", getValue: (gang: Gang) => gang.status.summary?.pods ?? "" },
        { id: "domain", label: "Domain", getValue: (gang: Gang) => gang.status.summary?.domain ?? "" },
        { id: "queue", label: "Queue", getValue: (gang: Gang) => gang.spec.queue ?? "" },
        { id: "message", label: "Message", getValue: (gang: Gang) => gang.status.message ?? "" },
        "age",
      ]}
    />
  );
}

function Lines({ title, lines }: { title: string; lines: string[] }) {
  return lines.length ? (
    <SectionBox title={title}>
      <ul>
        {lines.map((line) => (
          <li key={line}>{line}</li>
        ))}
      </ul>
    </SectionBox>
  ) : null;
}

function sectionsOf(gang: Gang) {
  const { explanation = {}, victims = [], assignments = [] } = gang.status;
  const near = explanation.nearest ?? [];
  return [
    { id: "help", section: <Lines title="What would help" lines={explanation.wouldFitIf ?? []} /> },
    {
      id: "nearest",
      section: near.length ? (
        <SectionBox title="Closest domains">
          <SimpleTable
            data={near}
            columns={[
              { label: "Domain", getter: (each: Near) => each.path.join(" / ") || "whole cluster" },
              { label: "Fits", getter: (each: Near) => `${each.fits} of ${each.needed}` },
              { label: "Nodes", getter: (each: Near) => each.nodes },
              { label: "Excluded", getter: exclusions },
            ]}
          />
        </SectionBox>
      ) : null,
    },
    { id: "victims", section: <Lines title="Evicted for it" lines={victims.map((each) => `${each.namespace}/${each.pod}${each.gang ? ` of ${each.gang}` : ""}${each.node ? ` on ${each.node}` : ""}`)} /> },
    { id: "where", section: <Lines title="Planned nodes" lines={assignments.map((each) => `${each.pod}: ${each.node}`)} /> },
    {
      id: "conditions",
      section: (
        <SectionBox title="Conditions">
          <ConditionsTable resource={gang.jsonData} />
        </SectionBox>
      ),
    },
  ];
}

function GangDetail() {
  const { namespace, name } = useParams<{ namespace: string; name: string }>();
  return (
    <DetailsGrid
      resourceType={Gang}
      name={name}
      namespace={namespace}
      withEvents
      extraInfo={(gang: Gang | null) =>
        gang
          ? [
              { name: "State", value: <State gang={gang} /> },
              { name: "Message", value: gang.status.message ?? "" },
              { name: "Proof", value: gang.status.proof ?? "" },
              { name: "Queue", value: gang.spec.queue ?? "" },
              { name: "Required level", value: gang.spec.required ?? "" },
              { name: "Preferred level", value: gang.spec.preferred ?? "" },
              { name: "Why here", value: gang.status.explanation?.whyHere ?? "" },
              { name: "Restarts", value: gang.status.restarts ?? 0 },
            ]
          : []
      }
      extraSections={sectionsOf}
    />
  );
}

registerSidebarEntry({ parent: null, name: "phalanx", label: "Phalanx", icon: "mdi:view-grid", url: "/phalanx/gangs" });
registerSidebarEntry({ parent: "phalanx", name: LIST, label: "Gangs", url: "/phalanx/gangs" });
registerRoute({ path: "/phalanx/gangs", sidebar: LIST, name: LIST, exact: true, component: () => <Gangs /> });
registerRoute({ path: "/phalanx/gangs/:namespace/:name", sidebar: LIST, name: DETAIL, exact: true, component: () => <GangDetail /> });
