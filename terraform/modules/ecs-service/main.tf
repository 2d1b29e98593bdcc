# One ECS service: the main container, who makes its scratch folders writable before, and who publishes its metrics.

locals {
  fargate = var.capacity_provider == "FARGATE"

  log = { for kind, group in var.log_groups : kind => {
    logDriver = "awslogs"
    options   = { "awslogs-group" = group.name, "awslogs-region" = var.region, "awslogs-stream-prefix" = var.name }
  } }

  # Everywhere: no writable root, no way to more rights.
  base = {
    image                  = var.image
    readonlyRootFilesystem = true
    privileged             = false
    linuxParameters        = { initProcessEnabled = true, capabilities = { drop = ["ALL"] } }
  }

  scratch = [for name in ["tmp", "cache"] : { sourceVolume = name, containerPath = "/${name}", readOnly = false }]

  prepare = merge(local.base, {
    name             = "prepare"
    essential        = false
    user             = "0" # a fresh volume is root's; the service is not root
    entryPoint       = ["chmod", "1777", "/tmp", "/cache"]
    command          = []
    mountPoints      = local.scratch
    logConfiguration = local.log.detailed
  })

  main = merge(local.base, {
    name             = "main"
    essential        = true
    entryPoint       = ["/bin/sh", "-c"]
    command          = [var.command]
    environment      = [for name, value in merge({ HOME = "/tmp" }, var.environment) : { name = name, value = value }]
    secrets          = [for name, arn in var.secrets : { name = name, valueFrom = arn }]
    mountPoints      = local.scratch
    dependsOn        = [{ containerName = "prepare", condition = "SUCCESS" }]
    stopTimeout      = 110 # within the two minutes of a spot notice
    logConfiguration = local.log.detailed
    portMappings     = var.target == null ? [] : [{ containerPort = var.target.port, protocol = "tcp" }]
    ulimits          = [{ name = "nofile", softLimit = 65536, hardLimit = 65536 }]
    linuxParameters = merge(local.base.linuxParameters,
    var.size.shared_memory > 0 ? { sharedMemorySize = var.size.shared_memory } : {})
    healthCheck = {
      command     = ["CMD-SHELL", var.health_command]
      interval    = 10
      timeout     = 5
      retries     = 3
      startPeriod = 120
    }
    resourceRequirements = var.size.gpus > 0 ? [{ type = "GPU", value = tostring(var.size.gpus) }] : []
  })

  metrics = merge(local.base, {
    name             = "metrics"
    essential        = false
    cpu              = 32
    memory           = 128
    entryPoint       = ["python", "-m", "serving.emf"]
    command          = ["--url", var.metrics_url, "--service", var.name]
    dependsOn        = [{ containerName = "main", condition = "START" }]
    logConfiguration = local.log.aggregated
  })
}

resource "aws_ecs_task_definition" "this" {
  family                   = var.name
  network_mode             = "awsvpc"
  requires_compatibilities = [local.fargate ? "FARGATE" : "EC2"]
  cpu                      = var.size.cpu
  memory                   = var.size.memory
  execution_role_arn       = aws_iam_role.execution.arn
  task_role_arn            = aws_iam_role.task.arn
  container_definitions    = jsonencode([local.prepare, local.main, local.metrics])

  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = "X86_64"
  }

  volume {
    name = "tmp"
  }

  volume {
    name      = "cache"
    host_path = var.cache_path
  }
}

resource "aws_ecs_service" "this" {
  name                               = var.name
  cluster                            = var.cluster_arn
  task_definition                    = aws_ecs_task_definition.this.arn
  desired_count                      = var.tasks
  deployment_minimum_healthy_percent = var.replace_first ? 0 : 100
  deployment_maximum_percent         = var.replace_first ? 100 : 200
  health_check_grace_period_seconds  = var.target == null ? null : var.target.grace_s
  enable_ecs_managed_tags            = true
  propagate_tags                     = "SERVICE"

  capacity_provider_strategy {
    capacity_provider = var.capacity_provider
    weight            = 1
  }

  network_configuration {
    subnets          = var.subnet_ids
    security_groups  = var.security_group_ids
    assign_public_ip = false
  }

  # A version that does not come up is taken back.
  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  dynamic "load_balancer" {
    for_each = var.target == null ? [] : [var.target]
    content {
      target_group_arn = load_balancer.value.group_arn
      container_name   = "main"
      container_port   = load_balancer.value.port
    }
  }

  dynamic "service_registries" {
    for_each = var.registry_arn == null ? [] : [var.registry_arn]
    content {
      registry_arn = service_registries.value
    }
  }
}
