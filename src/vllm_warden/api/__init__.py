"""HTTP and JSON over the Unix socket: routes, access, server, client."""
