"""Faults that `mutation_check` plants one at a time, and what each one breaks.

`old` occurs exactly once in the file; `test_mutations.py` checks that.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mutation:
    """One fault: `old` in the file is replaced with `new`."""

    name: str
    file: str
    old: str
    new: str


_EXECUTING = "controller/acting/executing.py"
_NEXT_STEP = "controller/release/next_step.py"
_PROBE = "controller/acting/probe.py"
_POSTPONED = "controller/scheduling/postponed_steps.py"
_WITHDRAWING = "controller/acting/withdrawing.py"
_WHOLENESS = "controller/release/wholeness.py"
_ELECTION = "controller/leadership/election.py"
_LEASE = "controller/leadership/lease.py"
_LOOP = "controller/loop.py"
_URGENCY = "controller/urgency.py"
_PLACEHOLDERS = "controller/acting/placeholders.py"
_DEVICE_CONFLICTS = "controller/scheduling/device_conflicts.py"

MUTATIONS = (
    Mutation(
        "a release does not wait for the probe",
        _EXECUTING,
        "if gang_state.record is None or not self._probes.seen(gang_state.record.plan_id):",
        "if gang_state.record is None:",
    ),
    Mutation(
        "the probe's answer is dropped", _PROBE, "self._prove(frozenset(self._covered))", "self._prove(frozenset())"
    ),
    Mutation(
        "a probe that somebody deleted counts as answered",
        _PROBE,
        "self._wanted |= self._covered  # another client deleted the probe before the scheduler tried it",
        "self._prove(frozenset(self._covered))",
    ),
    Mutation(
        "a new nomination leaves an old probe valid",
        _EXECUTING,
        "        plan_id = gang_state.record.plan_id\n        self._probes.forget(plan_id)\n",
        "        plan_id = gang_state.record.plan_id\n",
    ),
    Mutation(
        "a release does not wait for missing nominations",
        _NEXT_STEP,
        "    if missing:\n        return Nominate(missing)",
        "    if missing and len(missing) == len(planned):\n        return Nominate(missing)",
    ),
    Mutation(
        "a release does not wait for victims to go",
        _NEXT_STEP,
        "    if situation.lost(planned):\n        return AwaitVictims(victims)\n",
        "",
    ),
    Mutation(
        "capacity that others took is not noticed before the release",
        _NEXT_STEP,
        "    cause, why = _capacity_lost(situation, planned, victims)\n",
        "    cause, why = None, ''\n",
    ),
    Mutation(
        "a planned member that is gone is not noticed",
        _NEXT_STEP,
        "    if vanished := _vanished(situation, record):",
        "    if (vanished := _vanished(situation, record)) and not planned:",
    ),
    Mutation(
        "a request that was edited after the plan is not noticed",
        _NEXT_STEP,
        "    if changed := _changed(situation, record):",
        "    if (changed := _changed(situation, record)) and not planned:",
    ),
    Mutation(
        "a gang is released although too few of its members are left",
        _NEXT_STEP,
        "    if not situation.gang.suffice(_counted_on(situation.gang, record)):\n        return Cause.MEMBER_GONE",
        "    if not situation.gang.members:\n        return Cause.MEMBER_GONE",
    ),
    Mutation(
        "a release ignores the plans that its round accepts",
        _LOOP,
        "        gang_states = postpone_displaced(gang_states, cluster_view.snapshot)\n",
        "",
    ),
    Mutation(
        "a new leader releases before it has planned gangs of higher priority",
        _LOOP,
        "        gang_states = known.handover.postpone(gang_states, self._planning_queue.unanswered)\n",
        "",
    ),
    Mutation(
        "victims are evicted although one eviction would be refused",
        _EXECUTING,
        "        refusal = self._refusal(victims, tried)\n        if not refusal and",
        "        refusal = ''\n        if not refusal and",
    ),
    Mutation(
        "a placeholder counts against its own gang",
        "cluster/capturing.py",
        "    pod = as_held(pod)\n",
        "    pod = as_held(pod) and pod\n",
    ),
    Mutation(
        "a plan evicts one pod more than a disruption budget allows",
        "planning/framing/disruption_budgets.py",
        "        return max(0, counted)\n",
        "        return max(0, counted) + 1\n",
    ),
    Mutation(
        "a gang is planned although others use the quota of its queue",
        "planning/quota/queueing.py",
        "        if need[name] > left[name]:\n",
        "        if need[name] > left[name] and not usage.by_gang:\n",
    ),
    Mutation(
        "a gang stays pinned to where no member runs any more",
        "planning/pins.py",
        "    return tuple(member.pod for member in gang.members if pinned_domain(member.pod))\n",
        "    return ()\n",
    ),
    Mutation(
        "a victim is evicted without the version that was seen",
        _EXECUTING,
        "partial(self._writer.evict, v.namespace, v.name, v.uid, version=meta.resource_version, dry_run=dry_run)",
        "partial(self._writer.evict, v.namespace, v.name, v.uid, dry_run=dry_run)",
    ),
    Mutation(
        "the nominations of a plan that fell stay",
        _EXECUTING,
        "partial(self._writer.clear, pod) for pod in stale if not is_placeholder(pod))",
        "partial(self._writer.clear, pod) for pod in stale[:0])",
    ),
    Mutation(
        "victims of a plan that fell are not spared",
        _EXECUTING,
        "            effects = effects.then(Effects.of(self._spare(gang_state, cluster_view)))\n",
        "",
    ),
    Mutation(
        "placeholders of gangs that are gone stay",
        _EXECUTING,
        "                free(self._writer, held.values())\n",
        "                pass\n",
    ),
    Mutation(
        "a gang that runs in part is not withdrawn",
        _WITHDRAWING,
        "    if not gang.all_or_none or not started or was_whole(gang, status):",
        "    if started or not gang.all_or_none or was_whole(gang, status):",
    ),
    Mutation(
        "a whole gang gets no mark",
        _LOOP,
        "        gang_states = after(gang_states, steps.marker.mark(gang_states))\n",
        "",
    ),
    Mutation(
        "the marks of a whole gang are not read",
        _WHOLENESS,
        "return bool(bound) and (gang.suffice(bound) or any(map(_mark, bound)) or bool(status_says_whole(status)))",
        "return bool(bound) and gang.suffice(bound)",
    ),
    Mutation(
        "bound members are evicted although unbound ones may be bound meanwhile",
        _WITHDRAWING,
        "        if all(answer.over for answer in answers):\n            bound = [",
        "        if released:\n            bound = [",
    ),
    Mutation(
        "a release does not note that it has begun",
        "controller/release/patches.py",
        "RELEASE_BEGUN: begun or now",
        "'phalanx.dev/nothing': begun or now",
    ),
    Mutation(
        "a leader writes after its term",
        _ELECTION,
        "        if left <= 0:\n            raise LeadershipLostError(",
        "        if left < 0:\n            raise LeadershipLostError(",
    ),
    Mutation(
        "a Lease is taken before it expires",
        _LEASE,
        "        if lease is not None and not self._free():\n            return False",
        "        if lease is not None and spec.get('holderIdentity') == self._identity:\n            return False",
    ),
    Mutation(
        "a round does not wait until the cache shows its leader's own writes",
        _LOOP,
        "        if self._writer.read_your_writes.late(self._cache):",
        "        if self._writer.read_your_writes.late(self._cache) and known.fresh:",
    ),
    Mutation(
        "a pod that leaves wakes nobody who waits for capacity",
        _URGENCY,
        "return Urgency.SOON if leaves and (name is not None or self._room) else Urgency.LATER",
        "return Urgency.NEVER if leaves and (name is not None or self._room) else Urgency.LATER",
    ),
    Mutation(
        "a placeholder without a gate may preempt, so that the scheduler clears its nomination",
        _PLACEHOLDERS,
        '"preemptionPolicy": "Never",',
        '"preemptionPolicy": "PreemptLowerPriority",',
    ),
    Mutation(
        "before 1.37 the nomination of a gated member counts as a reservation",
        _NEXT_STEP,
        "return to_come(self.pod) or (self.ungated and self.gated)",
        "return to_come(self.pod)",
    ),
    Mutation(
        "a placeholder is deleted before its member is nominated",
        _PLACEHOLDERS,
        "    nominated = writer.nominate(member.pod, member.node, plan_id, counted_again=time)\n",
        "    free(writer, [member.placeholder] if member.placeholder else [])\n"
        "    nominated = writer.nominate(member.pod, member.node, plan_id, counted_again=time)\n",
    ),
    Mutation(
        "a placeholder stays when its member is released",
        _PLACEHOLDERS,
        "    if member.placeholder is not None:\n        meta = member.placeholder.metadata\n",
        "    if member.placeholder is None:\n        meta = member.pod.metadata\n",
    ),
    Mutation(
        "an answered probe wakes nobody",
        _URGENCY,
        "    return Urgency.NOW if tried_probe(pod) else Urgency.NEVER",
        "    return Urgency.NEVER",
    ),
    Mutation(
        "a rejection holds although the cluster has changed",
        "controller/scheduling/rejections.py",
        "        if changes.are_none(self.basis):",
        "        if self.basis is not None:",
    ),
    Mutation(
        "a share of a device is written without its capacity",
        "controller/release/devices.py",
        '    consumed = {"consumedCapacity": dict(device.consumed)} if device.consumed else {}\n',
        "    consumed = dict[str, Any]()\n",
    ),
    Mutation(
        "two claims on a shared device count as one",
        "cluster/devices/claims.py",
        "known.get(name, _NOTHING) + amounts.get(name, _NOTHING)",
        "max(known.get(name, _NOTHING), amounts.get(name, _NOTHING))",
    ),
    Mutation(
        "two plans are held for the same share of a device",
        _DEVICE_CONFLICTS,
        "            self._consumed[device].append(amounts)",
        "            self._consumed[device][:] = [amounts]",
    ),
    Mutation(
        "a share that another claim has got meanwhile is not noticed",
        _DEVICE_CONFLICTS,
        "        others = [amounts for claim, amounts in view.sharers.get(device, ()) if stays(claim)]",
        "        others = list[Amounts]()",
    ),
)
