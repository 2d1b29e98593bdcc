# A server reads the model, and nothing else.
data "aws_iam_policy_document" "read_models" {
  statement {
    sid       = "List"
    actions   = ["s3:ListBucket"]
    resources = [module.models.arn]
    condition {
      test     = "StringLike"
      variable = "s3:prefix"
      values   = [for prefix in compact([var.model_prefix, var.head_prefix]) : "${prefix}/*"]
    }
  }
  statement {
    sid       = "Read"
    actions   = ["s3:GetObject"]
    resources = [for prefix in compact([var.model_prefix, var.head_prefix]) : "${module.models.arn}/${prefix}/*"]
  }
  statement {
    sid       = "Decrypt"
    actions   = ["kms:Decrypt"]
    resources = [module.data_key.arn]
  }
}

locals {
  image = "${module.registry.urls["${var.name}/server"]}:${var.image_tag}"
  # Whether Ray's process on the task is there; whether a verifier or a router is well, Ray Serve checks itself, and
  # ending a task for what its replicas do would take the other replicas with it.
  alive = "python -c 'import socket; socket.create_connection((\"127.0.0.1\", %d), 3)'"
}

module "router" {
  source             = "../../modules/ecs-service"
  name               = "${var.name}-router"
  region             = var.region
  cluster_arn        = aws_ecs_cluster.this.arn
  capacity_provider  = "FARGATE"
  tasks              = 1
  replace_first      = true # there is one head, or two clusters
  size               = { cpu = local.head_cpus * 1024, memory = 8192, gpus = 0, shared_memory = 0 }
  image              = local.image
  command            = local.head_command
  environment        = merge(local.environment, { SERVE_CONFIG = jsonencode(local.serve_config) })
  secrets            = local.secrets
  health_command     = format(local.alive, local.gcs_port)
  metrics_url        = "http://127.0.0.1:${local.http_port}/metrics"
  subnet_ids         = module.network.private_subnet_ids
  security_group_ids = [aws_security_group.ray.id]
  # Until the first verifier has loaded its model there is no answer.
  target               = { group_arn = module.load_balancer.target_group_arn, port = local.http_port, grace_s = 1800 }
  registry_arn         = aws_service_discovery_service.head.arn
  image_repository_arn = module.registry.arns[0]
  kms_key_arn          = module.data_key.arn
  log_groups           = { detailed = module.log_groups.detailed, aggregated = module.log_groups.aggregated }

  depends_on = [aws_ecs_cluster_capacity_providers.this]
}

module "server" {
  source               = "../../modules/ecs-service"
  name                 = "${var.name}-server"
  region               = var.region
  cluster_arn          = aws_ecs_cluster.this.arn
  capacity_provider    = module.gpu.name
  tasks                = var.servers.count
  replace_first        = true # a successor would need another GPU
  size                 = { cpu = var.server.cpu, memory = var.server.memory, gpus = 1, shared_memory = floor(var.server.memory / 4) }
  image                = local.image
  command              = local.server_command
  environment          = local.environment
  secrets              = local.secrets
  health_command       = format(local.alive, 6380)
  metrics_url          = "http://127.0.0.1:${local.metrics_port}/metrics"
  cache_path           = "/var/lib/canopy"
  subnet_ids           = module.network.private_subnet_ids
  security_group_ids   = [aws_security_group.ray.id]
  task_policies        = { models = data.aws_iam_policy_document.read_models.json }
  image_repository_arn = module.registry.arns[0]
  kms_key_arn          = module.data_key.arn
  log_groups           = { detailed = module.log_groups.detailed, aggregated = module.log_groups.aggregated }

  depends_on = [aws_ecs_cluster_capacity_providers.this]
}
