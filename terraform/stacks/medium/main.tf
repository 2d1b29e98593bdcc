# Internal tool, ~1,000 requests a day: one Ray cluster of ECS tasks, its head and router on Fargate, its verifiers on
# GPU machines.

module "network" {
  source         = "../../modules/network"
  name           = var.name
  region         = var.region
  cidr           = var.cidr
  zones          = var.zones
  public_subnets = !var.internal
  kms_key_arn    = module.logs_key.arn
  interface_endpoints = [
    "ecr.api", "ecr.dkr", "logs", "secretsmanager",
    "ecs", "ecs-agent", "ecs-telemetry", # how the GPU machines' agents reach ECS
  ]
}

module "log_groups" {
  source      = "../../modules/log-groups"
  name        = var.name
  kms_key_arn = module.logs_key.arn
}

module "logs_bucket" {
  source = "../../modules/logs-bucket"
  name   = "${var.name}-logs"
}

module "models" {
  source      = "../../modules/models-bucket"
  name        = "${var.name}-models"
  kms_key_arn = module.data_key.arn
  logs_bucket = module.logs_bucket.name
}

module "registry" {
  source       = "../../modules/registry"
  repositories = ["${var.name}/server"]
  kms_key_arn  = module.data_key.arn
}

module "load_balancer" {
  source          = "../../modules/load-balancer"
  name            = var.name
  vpc_id          = module.network.vpc_id
  subnet_ids      = var.internal ? module.network.private_subnet_ids : module.network.public_subnet_ids
  internal        = var.internal
  client_cidrs    = var.client_cidrs
  certificate_arn = var.certificate_arn
  target_port     = local.http_port
  health_path     = "/health"
  idle_timeout_s  = local.request_timeout_s
  logs_bucket     = module.logs_bucket.name
}

resource "aws_ecs_cluster" "this" {
  name = var.name

  setting {
    name  = "containerInsights"
    value = "enabled"
  }
}

resource "aws_ecs_cluster_capacity_providers" "this" {
  cluster_name       = aws_ecs_cluster.this.name
  capacity_providers = ["FARGATE", module.gpu.name]
}

data "aws_ssm_parameter" "gpu_ami" {
  name = "/aws/service/ecs/optimized-ami/amazon-linux-2023/gpu/recommended/image_id"
}

module "gpu" {
  source         = "../../modules/gpu-capacity"
  name           = "${var.name}-gpu"
  cluster_name   = aws_ecs_cluster.this.name
  vpc_id         = module.network.vpc_id
  subnet_ids     = module.network.private_subnet_ids
  instance_types = var.instance_types
  ami_id         = nonsensitive(data.aws_ssm_parameter.gpu_ami.value) # a public image's id
  machines       = { min = 0, max = var.servers.count + 1 }           # one more, to replace one that is going
  on_demand      = { base = var.servers.on_demand, percentage = 0 }
  tags           = local.tags
}
