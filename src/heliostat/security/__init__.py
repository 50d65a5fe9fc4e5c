"""Who may do what at the target, as at the source: ACLs, client quotas, SCRAM users.

`wanted_acls` says which bindings the target should have for those of the source, and `follow` what
to make and to remove, and what needs a person: both are pure. `ledger` has what the link has made
and what it keeps ready, durable at the target. `sync` is one comparison of both clusters.
"""
