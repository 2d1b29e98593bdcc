# The Ray cluster: how its two kinds of task start, find each other and may talk.

locals {
  http_port         = 8000
  metrics_port      = 9101
  gcs_port          = 6379
  request_timeout_s = 600
  head_cpus         = 2

  model = "s3://${module.models.name}/${var.model_prefix}"
  head  = var.head_prefix == null ? {} : { head = "s3://${module.models.name}/${var.head_prefix}" }

  # What `serve run` gets. Places follow from what tasks offer, see README.md: a router needs both CPUs of the head
  # task and fits nowhere else, a verifier needs a GPU, and nothing else fits beside it.
  serve_config = {
    proxy_location = "HeadOnly"
    http_options   = { host = "0.0.0.0", port = local.http_port }
    applications = [{
      name         = "canopy"
      import_path  = "serving.app:build"
      route_prefix = "/"
      args = merge(var.settings, {
        model       = local.model
        cache_dir   = "/cache"
        speculation = merge(local.head, try(var.settings.speculation, {}), { placement = "colocated" })
        router      = merge({ request_timeout_s = local.request_timeout_s }, try(var.settings.router, {}))
        replicas = {
          routers               = 1
          router_cpus           = local.head_cpus
          verifiers             = var.servers.count
          verifier_gpus         = 1
          max_surge_percent     = 0   # no GPU is left for a successor
          verifier_cpus         = 0.9 # and 0.05 more for its front
          verifier_metrics_port = local.metrics_port
        }
      })
    }]
  }

  # Fixed, so that the scratch ports of tasks are in one known range.
  ports = "--node-manager-port=6380 --object-manager-port=6381 --min-worker-port=11000 --max-worker-port=11999"

  head_command = join(" ", [
    "ray start --head --port=${local.gcs_port} ${local.ports} --num-cpus=${local.head_cpus} --num-gpus=0",
    "--disable-usage-stats --dashboard-host=127.0.0.1",
    # Fargate gives a task no shared memory; nothing large passes the head.
    "--plasma-directory=/tmp --object-store-memory=200000000",
    "&& printf '%s' \"$SERVE_CONFIG\" > /tmp/serve.yaml && exec serve run /tmp/serve.yaml",
  ])

  server_command = join(" ", [
    "exec ray start --block --address=${local.head_name}:${local.gcs_port} ${local.ports}",
    "--num-cpus=1 --num-gpus=1 --disable-usage-stats",
  ])

  head_name = "head.${aws_service_discovery_private_dns_namespace.this.name}"

  # Any node may build the application, so any node must know the keys: without them the service would be open.
  secrets = {
    CANOPY_ROUTER_API_KEYS = module.api_keys.arn
    RAY_AUTH_TOKEN         = module.ray_token.arn
  }
  environment = { RAY_AUTH_MODE = "token", AWS_REGION = var.region }
}

resource "aws_service_discovery_private_dns_namespace" "this" {
  name        = "${var.name}.internal"
  description = "Where GPU machines find the head"
  vpc         = module.network.vpc_id
}

resource "aws_service_discovery_service" "head" {
  name = "head"

  dns_config {
    namespace_id   = aws_service_discovery_private_dns_namespace.this.id
    routing_policy = "MULTIVALUE"

    dns_records {
      type = "A"
      ttl  = 10
    }
  }
}

resource "aws_security_group" "ray" {
  #checkov:skip=CKV2_AWS_5:it is on the interfaces of both services' tasks, in the module ecs-service
  name        = "${var.name}-ray"
  description = "Tasks of the Ray cluster"
  vpc_id      = module.network.vpc_id
  tags        = { Name = "${var.name}-ray" }
}

# Ray connects every process with every other; each task has an interface to itself, so these are Ray's ports only.
resource "aws_vpc_security_group_ingress_rule" "ray" {
  #checkov:skip=CKV_AWS_25:its source is the group itself, not the internet
  security_group_id            = aws_security_group.ray.id
  description                  = "Among the tasks of the Ray cluster"
  referenced_security_group_id = aws_security_group.ray.id
  ip_protocol                  = "tcp"
  from_port                    = 1024
  to_port                      = 65535
}

resource "aws_vpc_security_group_ingress_rule" "http" {
  security_group_id            = aws_security_group.ray.id
  description                  = "Requests from the load balancer"
  referenced_security_group_id = module.load_balancer.security_group_id
  ip_protocol                  = "tcp"
  from_port                    = local.http_port
  to_port                      = local.http_port
}

resource "aws_vpc_security_group_egress_rule" "to_targets" {
  security_group_id            = module.load_balancer.security_group_id
  description                  = "Requests to the routers"
  referenced_security_group_id = aws_security_group.ray.id
  ip_protocol                  = "tcp"
  from_port                    = local.http_port
  to_port                      = local.http_port
}

resource "aws_vpc_security_group_egress_rule" "ray" {
  security_group_id            = aws_security_group.ray.id
  description                  = "Among the tasks of the Ray cluster"
  referenced_security_group_id = aws_security_group.ray.id
  ip_protocol                  = "tcp"
  from_port                    = 1024
  to_port                      = 65535
}

resource "aws_vpc_security_group_egress_rule" "https" {
  security_group_id = aws_security_group.ray.id
  description       = "HTTPS to the VPC's endpoints and to S3 by its gateway; there is no route to anything else"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}
