"""What people see of a cluster's services, read with their own rights: watches, logs and requests through proxies."""
