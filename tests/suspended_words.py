"""The two messages about a suspended Job in a queue, as events and conditions report them."""

LIFTED = (
    "Job default/j4: spec.suspend: was lifted when the Job was made, and applying its manifest again changes nothing; "
    'to suspend it: kubectl -n default patch job j4 -p \'{"spec":{"suspend":true}}\''
)
SUSPENDED = (
    "Job default/j4: spec.suspend: is suspended by its user: its pods are deleted and their capacity is freed; "
    'to go on: kubectl -n default patch job j4 -p \'{"spec":{"suspend":false}}\''
)
