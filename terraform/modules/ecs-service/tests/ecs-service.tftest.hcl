# Nothing is looked up in an account: the credentials are made up.
provider "aws" {
  region                      = "eu-central-1"
  access_key                  = "none"
  secret_key                  = "none"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
}

variables {
  name                 = "canopy-server"
  region               = "eu-central-1"
  cluster_arn          = "arn:aws:ecs:eu-central-1:123456789012:cluster/canopy"
  capacity_provider    = "canopy-gpu"
  tasks                = 1
  replace_first        = true
  size                 = { cpu = 7168, memory = 28672, gpus = 1, shared_memory = 7168 }
  image                = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/canopy/server:1.0"
  command              = "ray start --block"
  environment          = {}
  secrets              = { RAY_AUTH_TOKEN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:canopy/ray-token" }
  health_command       = "true"
  metrics_url          = "http://127.0.0.1:9101/metrics"
  subnet_ids           = ["subnet-0123456789abcdef0"]
  security_group_ids   = ["sg-0123456789abcdef0"]
  image_repository_arn = "arn:aws:ecr:eu-central-1:123456789012:repository/canopy/server"
  kms_key_arn          = "arn:aws:kms:eu-central-1:123456789012:key/11111111-2222-3333-4444-555555555555"
  log_groups = {
    detailed   = { name = "/canopy/detailed", arn = "arn:aws:logs:eu-central-1:123456789012:log-group:/canopy/detailed" }
    aggregated = { name = "/canopy/aggregated", arn = "arn:aws:logs:eu-central-1:123456789012:log-group:/canopy/aggregated" }
  }
}

run "containers_can_change_nothing" {
  command = plan
  assert {
    condition     = alltrue([for c in jsondecode(aws_ecs_task_definition.this.container_definitions) : c.readonlyRootFilesystem && !c.privileged && c.linuxParameters.capabilities.drop == ["ALL"]])
    error_message = "a container can write to its root or get more rights"
  }
  assert {
    condition     = one([for c in jsondecode(aws_ecs_task_definition.this.container_definitions) : c if c.name == "main"]).resourceRequirements == [{ type = "GPU", value = "1" }]
    error_message = "the GPU is not reserved"
  }
  assert {
    condition     = one([for c in jsondecode(aws_ecs_task_definition.this.container_definitions) : c if c.name == "main"]).stopTimeout < 120
    error_message = "longer than a spot notice"
  }
  assert {
    condition     = one([for c in jsondecode(aws_ecs_task_definition.this.container_definitions) : c if c.name == "metrics"]).logConfiguration.options["awslogs-group"] == "/canopy/aggregated"
    error_message = "lines about minutes are kept as long as lines about requests"
  }
  assert {
    condition     = aws_ecs_service.this.deployment_circuit_breaker[0].rollback && aws_ecs_service.this.deployment_maximum_percent == 100
    error_message = "a version that does not come up stays, or a successor waits for a GPU that is taken"
  }
  assert {
    condition     = one([for s in jsondecode(data.aws_iam_policy_document.execution.json).Statement : s if s.Sid == "Secrets"]).Resource == var.secrets["RAY_AUTH_TOKEN"]
    error_message = "the task may read other secrets, too"
  }
  assert {
    condition     = !aws_ecs_service.this.network_configuration[0].assign_public_ip
    error_message = "a task has a public address"
  }
}

run "fargate" {
  command = plan
  variables {
    capacity_provider = "FARGATE"
    size              = { cpu = 2048, memory = 8192, gpus = 0, shared_memory = 0 }
    target            = { group_arn = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:targetgroup/canopy/0123456789abcdef", port = 8000, grace_s = 1800 }
  }
  assert {
    condition     = aws_ecs_task_definition.this.requires_compatibilities == toset(["FARGATE"])
    error_message = "not for Fargate"
  }
  assert {
    condition     = !can(one([for c in jsondecode(aws_ecs_task_definition.this.container_definitions) : c if c.name == "main"]).linuxParameters.sharedMemorySize)
    error_message = "Fargate refuses shared memory"
  }
  assert {
    condition     = aws_ecs_service.this.health_check_grace_period_seconds == 1800
    error_message = "the head would be ended while a model loads"
  }
}
