"""Users and accidents: what happens to a cluster from outside, as the seed decides."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from local_api.resources import Resource
from local_api.store import Object

from simulation.models.budgets import BUDGETS_PATH, budget
from simulation.models.devices import TEMPLATE
from simulation.models.jobs import JOB_NAME, JOBS, JOBS_PATH, job
from simulation.models.kubelets import STUCK, path_of
from simulation.models.leader_worker_sets import (
    CREATED,
    LEADER_WORKER_SETS,
    LEADER_WORKER_SETS_PATH,
    READY,
    leader_worker_set,
)
from simulation.models.scheduler import NODES
from simulation.models.stateful_sets import ORDERED, PARALLEL, STATEFUL_SETS, STATEFUL_SETS_PATH, stateful_set
from simulation.objects import (
    GANG_LABEL,
    GROUP_LABEL,
    LEADER_WORKER_SET_LABEL,
    gang_of,
    is_terminating,
    name_of,
    node_of,
)
from simulation.world import GANGS_PATH, NODES_PATH, World

_DELETE_NOW = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
PROTECTED = {"budget": "keep"}
"""The label of pods that a PodDisruptionBudget covers in the schedules that have one."""
ONE_DEVICE = {"name": "gpu", "resourceClaimTemplateName": TEMPLATE}
"""The entry of a pod that needs a device."""
PRIORITIES = ("", "low", "middle", "high")
STEP_SECONDS = (0.0, 1.5, -1.5, 30.0, -30.0)
"""By how much an administrator moves a machine's clock."""


@dataclass
class Users:
    """The source of every change that no modelled component makes."""

    world: World
    made: int = 0
    queues: tuple[str, ...] = ()
    """The queues that some gangs are created in; empty if there is none."""
    has_groups: bool = False
    """Whether users create LeaderWorkerSets."""
    has_devices: bool = False
    """Whether nodes have devices, so that some pods have claims."""

    def act(self, number: int) -> None:
        """Do one thing, or nothing."""
        actions: tuple[tuple[int, Callable[[str], None]], ...] = (
            (20, lambda _site: None),
            (10, self.gang),
            (8, self.job),
            (3, self.delete_job),
            (10, self.delete_pod),
            (8, self.recreate),
            (4, self.wipe_status),
            (3, self.delete_gang),
            (4, self.edit_gang),
            (10, self.rival),
            (6, self.delete_rival),
            (5, self.lose_node),
            (4, self.cordon),
            (4, self.stick),
            (4, self.step_clock),
            (5, self.restart_scheduler),
            (8, self.kill_leader),
            (6, self.freeze_leader),
            (14, self.stateful_set),
            (3, self.delete_stateful_set),
            (6, self.edit_budget),
        )
        self._choose(f"user{number}", actions)

    def act_further(self, number: int) -> None:
        """Do one of the things that only half of the schedules have, or nothing.

        They are drawn apart from those of `act`: so the other schedules stay what they are.
        """
        actions: tuple[tuple[int, Callable[[str], None]], ...] = (
            (12, lambda _site: None),
            (6, self.scale_stateful_set),
            (5, self.protect_gang),
            (4, self.stop_webhook),
        )
        self._choose(f"further{number}", actions)

    def act_with_groups(self, number: int) -> None:
        """Do one of the things that only schedules with LeaderWorkerSets have, or nothing."""
        actions: tuple[tuple[int, Callable[[str], None]], ...] = (
            (10, lambda _site: None),
            (8, self.leader_worker_set),
            (4, self.delete_group_pod),
            (2, self.delete_leader_worker_set),
            (3, self.scale_leader_worker_set),
        )
        self._choose(f"group{number}", actions)

    def act_with_devices(self, number: int) -> None:
        """Do one of the things that only schedules with devices have, or nothing."""
        actions: tuple[tuple[int, Callable[[str], None]], ...] = (
            (12, lambda _site: None),
            (8, self.device_gang),
            (3, self.device_job),
            (6, self.device_rival),
        )
        self._choose(f"device{number}", actions)

    def _choose(self, site: str, actions: Sequence[tuple[int, Callable[[str], None]]]) -> None:
        """Do the action that the seed decides. The first one is harmless."""
        chosen = self.world.choices.pick(site, [weight for weight, _ in actions])
        if chosen:
            self.world.invariants.disturbed()
            action = actions[chosen][1]
            self.world.note(f"user: {getattr(action, '__name__', '')}")
            action(site)
            self.world.settle()

    def gang(self, site: str) -> None:
        """Create a gang with its members."""
        world, self.made = self.world, self.made + 1
        name, size = f"g{self.made}", 2 + world.choices.number(f"{site}/size", 3)
        priority = PRIORITIES[world.choices.number(f"{site}/priority", len(PRIORITIES))]
        cpu = 4 if world.choices.pick(f"{site}/cpu", (3, 1)) == 0 else 2
        spec: Object = {} if world.choices.pick(f"{site}/required", (3, 1)) == 0 else {"required": None}
        extra = world.choices.pick(f"{site}/extra", (5, 1))
        if self.queues and world.choices.pick(f"{site}/queued", (1, 3)):
            spec["queue"] = self.queues[world.choices.number(f"{site}/queue", len(self.queues))]
        world.gang(name, size, **spec)
        for index in range(size + extra):
            world.pod(f"{name}-{index}", name, cpu=cpu, priority=priority)

    def job(self, site: str) -> None:
        """Create a Job that is a gang."""
        world, self.made = self.world, self.made + 1
        size = 2 + world.choices.number(f"{site}/size", 3)
        priority = PRIORITIES[world.choices.number(f"{site}/priority", len(PRIORITIES))]
        world.ask("POST", JOBS_PATH, job(f"j{self.made}", size, priority=priority))

    def leader_worker_set(self, site: str) -> None:
        """Create a LeaderWorkerSet of one or two groups."""
        world, self.made = self.world, self.made + 1
        groups, size = 1 + world.choices.pick(f"{site}/groups", (3, 1)), 2 + world.choices.pick(f"{site}/size", (3, 1))
        priority = PRIORITIES[world.choices.number(f"{site}/priority", len(PRIORITIES))]
        startup = (READY, CREATED)[world.choices.pick(f"{site}/startup", (3, 1))]
        manifest = leader_worker_set(f"l{self.made}", groups, size, startup=startup, priority=priority)
        world.ask("POST", LEADER_WORKER_SETS_PATH, manifest)

    def delete_group_pod(self, site: str) -> None:
        """Delete a pod of a group, which restarts the group."""
        pods = (each for each in self.world.pods() if LEADER_WORKER_SET_LABEL in (each["metadata"].get("labels") or {}))
        if found := sorted(pods, key=name_of):
            self.world.ask("DELETE", path_of(found[self.world.choices.number(f"{site}/which", len(found))]))

    def delete_leader_worker_set(self, site: str) -> None:
        """Delete a LeaderWorkerSet."""
        self._delete_workload(site, LEADER_WORKER_SETS, LEADER_WORKER_SETS_PATH)

    def scale_leader_worker_set(self, site: str) -> None:
        """Ask a LeaderWorkerSet for one group, or for two."""
        objects = self.world.api.store.objects
        names = sorted(name for (resource, _, name) in objects if resource == LEADER_WORKER_SETS)
        if names:
            name = names[self.world.choices.number(f"{site}/which", len(names))]
            replicas = 1 + self.world.choices.number(f"{site}/groups", 2)
            self.world.ask("PATCH", f"{LEADER_WORKER_SETS_PATH}/{name}", {"spec": {"replicas": replicas}})

    def device_gang(self, site: str) -> None:
        """Create a gang each of whose members needs a device."""
        world, self.made = self.world, self.made + 1
        name, size = f"d{self.made}", 2 + world.choices.number(f"{site}/size", 3)
        priority = PRIORITIES[world.choices.number(f"{site}/priority", len(PRIORITIES))]
        spec: Object = {} if world.choices.pick(f"{site}/required", (3, 1)) == 0 else {"required": None}
        world.gang(name, size, **spec)
        for index in range(size):
            world.pod(f"{name}-{index}", name, cpu=1, priority=priority, resourceClaims=[ONE_DEVICE])

    def device_job(self, site: str) -> None:
        """Create a Job that is a gang each of whose members needs a device."""
        world, self.made = self.world, self.made + 1
        size = 2 + world.choices.number(f"{site}/size", 3)
        priority = PRIORITIES[world.choices.number(f"{site}/priority", len(PRIORITIES))]
        manifest = job(f"j{self.made}", size, cpu=1, priority=priority)
        manifest["spec"]["template"]["spec"]["resourceClaims"] = [ONE_DEVICE]
        world.ask("POST", JOBS_PATH, manifest)

    def device_rival(self, site: str) -> None:
        """Create a pod of no gang that needs a device."""
        self.made += 1
        priority = PRIORITIES[self.world.choices.number(f"{site}/priority", len(PRIORITIES))]
        self.world.pod(f"r{self.made}", cpu=1, priority=priority, resourceClaims=[ONE_DEVICE])

    def delete_job(self, site: str) -> None:
        """Delete a Job."""
        self._delete_workload(site, JOBS, JOBS_PATH)

    def stateful_set(self, site: str) -> None:
        """Create a StatefulSet that is a gang, which starts its first pod alone or all pods at once."""
        world, self.made = self.world, self.made + 1
        size = 2 + world.choices.pick(f"{site}/size", (4, 1))
        priority = PRIORITIES[world.choices.number(f"{site}/priority", len(PRIORITIES))]
        policy = (ORDERED, PARALLEL)[world.choices.pick(f"{site}/policy", (3, 1))]
        manifest = stateful_set(f"s{self.made}", size, policy=policy, priority=priority)
        world.ask("POST", STATEFUL_SETS_PATH, manifest)

    def delete_stateful_set(self, site: str) -> None:
        """Delete a StatefulSet."""
        self._delete_workload(site, STATEFUL_SETS, STATEFUL_SETS_PATH)

    def scale_stateful_set(self, site: str) -> None:
        """Ask a StatefulSet for one pod more or one pod less, but not for none."""
        found = sorted(
            (each for (resource, *_), each in self.world.api.store.objects.items() if resource == STATEFUL_SETS),
            key=name_of,
        )
        if found:
            chosen = found[self.world.choices.number(f"{site}/which", len(found))]
            by = (1, -1)[self.world.choices.pick(f"{site}/by", (1, 1))]
            path = f"{STATEFUL_SETS_PATH}/{chosen['metadata']['name']}"
            self.world.ask("PATCH", path, {"spec": {"replicas": max(1, int(chosen["spec"]["replicas"]) + by)}})

    def protect_gang(self, site: str) -> None:
        """Create a budget over the members of a gang that keeps all of them available, or all but one."""
        if gang := self._gang(site):
            name, spare = gang["metadata"]["name"], self.world.choices.pick(f"{site}/spare", (1, 1))
            labels = {GANG_LABEL: name}
            if self._is_workload(name):
                labels = {"app": name} if name.startswith("s") else {JOB_NAME: name}
                if name.startswith("l"):
                    whole, _, group = name.rpartition("-")
                    labels = {LEADER_WORKER_SET_LABEL: whole, GROUP_LABEL: group}
            available = max(0, int(gang["spec"].get("minMember") or 0) - spare)
            self.world.ask("POST", BUDGETS_PATH, budget(f"keep-{name}", labels, available))

    def stop_webhook(self, site: str) -> None:
        """Let no replica of the webhook answer for a while."""
        if (webhook := self.world.webhook) is None or not webhook.answers:
            return
        webhook.answers = False
        seconds = self.world.choices.one_of(f"{site}/for", (3.0, 0.5, 12.0))
        self.world.invariants.disturbed(self.world.engine.now + seconds)

        def go_on() -> None:
            webhook.answers = True

        self.world.engine.after(seconds, go_on)

    def _delete_workload(self, site: str, kind: Resource, path: str) -> None:
        names = sorted(name for (resource, _, name) in self.world.api.store.objects if resource == kind)
        if names:
            self.world.ask("DELETE", f"{path}/{names[self.world.choices.number(f'{site}/which', len(names))]}")

    def _is_workload(self, name: str) -> bool:
        """Return whether a workload of this name has the gang of the same name."""
        objects, whole = self.world.api.store.objects, name.rpartition("-")[0]
        return (LEADER_WORKER_SETS, "default", whole) in objects or any(
            (kind, "default", name) in objects for kind in (JOBS, STATEFUL_SETS)
        )

    def recreate(self, site: str) -> None:
        """Create the missing members of a gang, as a user does who sees that they are gone."""
        gangs = sorted({each for (resource, _, each) in self.world.api.store.objects if resource.plural == "gangs"})
        if not gangs:
            return
        name = gangs[self.world.choices.number(f"{site}/which", len(gangs))]
        state = self.world.invariants.gangs[f"default/{name}"]
        priorities = [each["spec"].get("priorityClassName", "") for each in state.members.values()]
        if self._is_workload(name):
            return
        minimum = self.world.invariants.minimum(f"default/{name}")
        for index in range(max(0, minimum - len(state.members))):
            self.made += 1
            self.world.pod(f"{name}-{index}-{self.made}", name, priority=priorities[0] if priorities else "")

    def delete_pod(self, site: str) -> None:
        """Delete a pod, with grace or without."""
        pods = [each for each in self.world.pods() if each["metadata"]["namespace"] == "default"]
        if pods:
            pod = sorted(pods, key=name_of)[self.world.choices.number(f"{site}/which", len(pods))]
            now = self.world.choices.pick(f"{site}/how", (3, 1))
            self.world.ask("DELETE", path_of(pod), _DELETE_NOW if now else None)

    def wipe_status(self, site: str) -> None:
        """Delete the status of a Gang."""
        if gang := self._gang(site):
            gang = {key: value for key, value in gang.items() if key != "status"} | {"status": {}}
            gang["metadata"] = {key: gang["metadata"][key] for key in ("name", "uid")}
            self.world.ask("PUT", f"{GANGS_PATH}/{gang['metadata']['name']}/status", gang, "application/json")

    def delete_gang(self, site: str) -> None:
        """Delete a Gang. A Gang of a user is created again; the controller creates the mirror of a workload again."""
        if gang := self._gang(site):
            name, spec = gang["metadata"]["name"], gang["spec"]
            self.world.ask("DELETE", f"{GANGS_PATH}/{name}")
            if self._is_workload(name):
                return
            again = {"metadata": {"name": name}, "spec": spec}
            seconds = self.world.choices.one_of(f"{site}/after", (0.0, 0.5, 5.0))
            self.world.engine.after(seconds, lambda: self._disturb("POST", GANGS_PATH, again))

    def edit_gang(self, site: str) -> None:
        """Ask for fewer members, or for another level."""
        if gang := self._gang(site):
            least = max(1, int(gang["spec"].get("minMember") or 1) - 1)
            options: tuple[Object, ...] = ({"required": None}, {"minMember": least}, {"required": "rack"})
            spec = options[self.world.choices.number(f"{site}/spec", len(options))]
            self.world.ask("PATCH", f"{GANGS_PATH}/{gang['metadata']['name']}", {"spec": spec})

    def rival(self, site: str) -> None:
        """Create a pod of no gang."""
        self.made += 1
        priority = PRIORITIES[self.world.choices.number(f"{site}/priority", len(PRIORITIES))]
        self.world.pod(
            f"r{self.made}",
            cpu=4 if self.world.choices.pick(f"{site}/cpu", (1, 1)) else 2,
            priority=priority,
            labels=PROTECTED if self.world.choices.pick(f"{site}/protected", (1, 1)) else None,
        )

    def delete_rival(self, site: str) -> None:
        """Delete a pod of no gang."""
        rivals = [
            each for each in self.world.pods() if not gang_of(each) and each["metadata"]["namespace"] == "default"
        ]
        if rivals:
            rival = sorted(rivals, key=name_of)[self.world.choices.number(f"{site}/which", len(rivals))]
            self.world.ask("DELETE", path_of(rival))

    def edit_budget(self, site: str) -> None:
        """Change how many pods must stay available, or create the budget."""
        available = self.world.choices.number(f"{site}/available", 3)
        if self.world.ask("PATCH", f"{BUDGETS_PATH}/keep", {"spec": {"minAvailable": available}}) is None:
            self.world.ask("POST", BUDGETS_PATH, budget("keep", PROTECTED, available))

    def lose_node(self, site: str) -> None:
        """Delete a node; it registers again later."""
        if node := self._node(site):
            name = node["metadata"]["name"]
            self.world.ask("DELETE", f"{NODES_PATH}/{name}")
            again = {**node, "metadata": {key: node["metadata"][key] for key in ("name", "labels")}}
            seconds = self.world.choices.one_of(f"{site}/after", (8.0, 1.0, 25.0))
            self.world.engine.after(seconds, lambda: self._disturb("POST", NODES_PATH, again))

    def cordon(self, site: str) -> None:
        """Cordon a node, and uncordon it later."""
        if node := self._node(site):
            path = f"{NODES_PATH}/{node['metadata']['name']}"
            self.world.ask("PATCH", path, {"spec": {"unschedulable": True}})
            undo = {"spec": {"unschedulable": None}}
            self.world.engine.after(10.0, lambda: self._disturb("PATCH", path, undo))

    def stick(self, site: str) -> None:
        """Delete a pod that has a finalizer; its controller removes that much later."""
        pods = sorted((each for each in self.world.pods() if node_of(each) and not is_terminating(each)), key=name_of)
        if pods:
            pod = pods[self.world.choices.number(f"{site}/which", len(pods))]
            path = path_of(pod)
            self.world.ask("PATCH", path, {"metadata": {"finalizers": [STUCK]}})
            self.world.ask("DELETE", path)
            undo = {"metadata": {"finalizers": None}}
            self.world.engine.after(40.0, lambda: self._disturb("PATCH", path, undo))

    def step_clock(self, site: str) -> None:
        """Set the clock of a controller's machine."""
        names = sorted(self.world.machines)
        name = names[self.world.choices.number(f"{site}/which", len(names))]
        self.world.machines[name].offset = self.world.choices.one_of(f"{site}/by", STEP_SECONDS)

    def restart_scheduler(self, site: str) -> None:
        """Stop the scheduler for a while; one that forgets is restarted."""
        scheduler = self.world.scheduler
        seconds = self.world.choices.one_of(f"{site}/for", (1.0, 4.0, 10.0))
        self.world.invariants.disturbed(self.world.engine.now + seconds)
        if scheduler.forgets:
            scheduler.restart(seconds)
            return
        scheduler.paused = True

        def go_on() -> None:
            scheduler.paused = False
            scheduler.wake()

        self.world.engine.after(seconds, go_on)

    def kill_leader(self, _site: str) -> None:
        """Kill the controller that leads."""
        if (leader := self.world.leader) is not None:
            leader.process.end()

    def freeze_leader(self, site: str) -> None:
        """Stop the leading controller, and resume it later."""
        if (leader := self.world.leader) is not None and not leader.process.frozen:
            leader.process.frozen = True
            seconds = self.world.choices.one_of(f"{site}/for", (6.0, 2.0, 12.0))
            self.world.engine.after(seconds, leader.process.thaw)

    def _disturb(self, method: str, path: str, body: Object) -> None:
        self.world.invariants.disturbed()
        self.world.ask(method, path, body)

    def _gang(self, site: str) -> Object | None:
        gangs = [each for (resource, *_), each in self.world.api.store.objects.items() if resource.plural == "gangs"]
        if not gangs:
            return None
        return sorted(gangs, key=name_of)[self.world.choices.number(f"{site}/which", len(gangs))]

    def _node(self, site: str) -> Object | None:
        nodes = [each for (resource, *_), each in self.world.api.store.objects.items() if resource == NODES]
        if len(nodes) < 2:
            return None
        return sorted(nodes, key=name_of)[self.world.choices.number(f"{site}/which", len(nodes))]
