"""The Kubernetes cluster that the service runs on."""
