#!/bin/bash
cat >> /etc/ecs/ecs.config <<'CONFIG'
ECS_CLUSTER=${cluster}
ECS_ENABLE_GPU_SUPPORT=true
ECS_ENABLE_SPOT_INSTANCE_DRAINING=true
ECS_CONTAINER_STOP_TIMEOUT=110s
ECS_AWSVPC_BLOCK_IMDS=true
CONFIG
# Downloaded models outlive a task here; the service does not run as root.
install -d -m 1777 /var/lib/canopy
