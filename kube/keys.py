"""The keys of Phalanx: its labels, its annotations, its scheduling gate, and the names of its objects.

The keys of other systems, such as Kueue, are in the package of their dialect (`gangs/kueue/keys.py`).
"""

GROUP = "phalanx.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"

GATE = "phalanx.dev/gang"
"""The scheduling gate that holds a member until its whole gang can start."""

GANG = "phalanx.dev/gang"
"""Pod label: the gang of the pod, in any dialect. Workload annotation "true": the workload asks to be a gang."""
POD_SET = "phalanx.dev/pod-set"
INDEX = "phalanx.dev/index"
REQUIRED = "phalanx.dev/required"
PREFERRED = "phalanx.dev/preferred"
MIN_MEMBER = "phalanx.dev/min-member"
TOPOLOGY = "phalanx.dev/topology"
ASKING = (GANG, REQUIRED, PREFERRED, MIN_MEMBER, TOPOLOGY)
"""The annotations that make a workload a gang. A single annotation is enough."""
PLACEHOLDERS = "phalanx.dev/placeholders"
"""Workload annotation "false": no capacity is reserved for expected pods, which the workload creates later."""
IGNORE_CLAIMS = "phalanx.dev/ignore-resource-claims"
"""Annotation "true" of a workload, a group object or a pod: its gang is released although its pods have ResourceClaims.

The plan does not consider the devices that the claims ask for.
"""
EXPECTED_DURATION = "phalanx.dev/expected-duration"
"""Workload annotation: how long its gang is expected to run, such as 2h30m. It is used for estimates only."""
NODE_POOLS = "phalanx.dev/node-pools"
"""Annotation on a topology object of any system: the node pools that it describes, `label=value`, comma-separated."""
AUTOMATIC = "phalanx.dev/automatic"
"""Namespace label "true": every workload of more than one pod is a gang."""

SHARES_GROUPS_WITH = "phalanx.dev/shares-groups-with"
"""Namespace annotation: the other namespaces whose gangs may be in one group with gangs of this namespace.

The names are separated by commas. "*" means all namespaces. Without the annotation, no other namespace may.
"""

WORKLOAD = "phalanx.dev/workload"
"""Pod label, written to a workload's template at its admission: the kind of the workload that is the gang. The pod's
controller reference names the workload, so that workloads with a generated name work, too."""
NAMED_BY, PART_BY = "phalanx.dev/workload-named-by", "phalanx.dev/gang-by"
"""Pod annotations of a user-defined kind. The webhook writes them to pod templates, with the label `WORKLOAD`.

The value of each is the key of a label of the pod. `NAMED_BY`: the label that contains the workload's name. It is
needed if the pod's controller is not the workload itself. `PART_BY`: the label that contains the part of the workload
to which the pod belongs, if each part is a gang.
"""
DIALECT = "phalanx.dev/dialect"
"""Pod label, written at admission: the dialect that claimed the pod."""
PLANNED_NODE = "phalanx.dev/planned-node"
"""Pod annotation, written with the nomination: the member's node in the plan."""
RELEASED = "phalanx.dev/released"
"""Pod annotation, written with the release: its time, and a digest of the PodScheduled condition at that time."""
RELEASE_BEGUN = "phalanx.dev/release-begun"
"""Pod annotation, written with the release: when the first member of its gang was released. A gang whose members carry
it and no `WHOLE_MARK` has never been whole (docs/decisions/0015)."""
WHOLE_MARK = "phalanx.dev/whole"
"""Annotation of some members of a gang that has reached its minimum of bound members: how many members ran then."""
TAKEN_BACK = "phalanx.dev/taken-back"
"""Pod annotation: when the capacity of a released member was freed, because its scheduler had not tried it."""
PINNED_DOMAIN = "phalanx.dev/pinned-domain"
"""Pod annotation, written at the CREATE of a member while other members of its gang run.

Its value: labels of the domain in which these members run, and which the new member must share.
"""
PINNED_IN = "phalanx.dev/pinned-in"
"""Pod annotation, written with the release: where the pin is, so that the pin can be recognized later.

Its value is "affinity", or the pinned keys of `nodeSelector`, separated by commas; "" if the release writes no pin.
"""
MIRRORS = "phalanx.dev/mirrors"
"""Gang annotation, on mirrors: the gang that the mirror shows, as `dialect/namespace/name`."""
CREATED_SUSPENDED = "phalanx.dev/created-suspended"
"""Annotation of a workload in a queue, written at its CREATE: whether its manifest had already suspended it."""
ADOPT = "phalanx.dev/adopt"
"""Annotation on the webhook configuration: names of adopted systems, comma-separated. Phalanx plans their workloads."""
LEAVE = "phalanx.dev/leave"
"""Annotation on the webhook configuration: names of systems, comma-separated. Phalanx cedes their workloads to them,
even if it cannot detect that they run in the cluster."""
STRIP = "phalanx.dev/strip"
"""Annotation on the webhook configuration. "native": pods lose `spec.schedulingGroup` at their CREATE."""
ATOMIC_RELEASE = "phalanx.dev/atomic-release"
"""Annotation on the webhook configuration. "true": members of a gang join a PodGroup that Phalanx creates, so that
kube-scheduler binds the gang in one cycle."""
EXEMPTIONS = "phalanx.dev/exemptions"
"""Annotation on the webhook configuration. "ignored": users cannot exempt their pods from eviction by a label or an
annotation."""
CONFIGURATION = "zz-phalanx"
"""Name of Phalanx's mutating webhook configuration."""
PLAN = "phalanx.dev/plan"
"""Pod annotation, written with the nomination: the identifier of the plan, the same on all members."""
COUNTED_AGAIN = "phalanx.dev/counted-again"
"""Pod annotation, written when a member is nominated in place of its placeholder: the time.

The write changes the pod, so that a scheduler that does not count the nomination yet counts it.
"""
SPARED = "phalanx.dev/spared-from"
"""Pod annotation, written on a victim when its plan is invalidated: the identifier of that plan.

The write changes the pod's resourceVersion, so that an eviction request already sent for the pod fails.
"""

DEVICE_RULE = "phalanx.dev/device-rule"
"""Label of a DeviceTaintRule that the controller created. Its value: `TAKING`, or `YIELDING`."""
TAKING = "taking"
"""The DeviceTaintRule keeps new claims off a pool of devices while a gang's claims are allocated."""
YIELDING = "yielding"
"""The DeviceTaintRule keeps new claims off a device that two claims have, until the other claim has ended."""
DEVICES_TAKEN = "phalanx.dev/devices-taken"
"""The key of the taint in these DeviceTaintRules."""

CONVERTED = "phalanx.dev/converted-resources"
"""Pod annotation, written at the CREATE of a member: its requests for extended resources, which became a claim
(`cluster.devices.extended_resources`). Also the label "true" of the ResourceClaimTemplate from which the claim is
created.
"""
CLAIM_ENTRY = "phalanx-extended-resources"
"""The entry of `spec.resourceClaims` for the claim that replaced requests for extended resources."""

SYSTEM_NAMESPACE = "phalanx-system"
CONTROLLER_LEASE = "phalanx-controller"
REPORTING_CONTROLLER = "phalanx.dev/controller"
"""The reporting controller in events of gangs."""
SCHEDULERS = "phalanx-schedulers"
"""ConfigMap of the system namespace: by scheduler name, whether the scheduler runs. The controller writes what it
observes, and an administrator may set it."""
STOCK_SCHEDULER = "default-scheduler"
FIELD_MANAGER = "phalanx"
