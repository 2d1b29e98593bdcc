variable "name" {
  description = "Name of the service and its task family."
  type        = string
}

variable "region" {
  description = "Region, for the log driver."
  type        = string
}

variable "cluster_arn" {
  description = "ECS cluster."
  type        = string
}

variable "capacity_provider" {
  description = "FARGATE, or a capacity provider of EC2 machines."
  type        = string
}

variable "tasks" {
  description = "Tasks that run."
  type        = number

  validation {
    condition     = var.tasks >= 0
    error_message = "tasks must be at least 0."
  }
}

variable "replace_first" {
  description = "Whether an old task ends before its successor starts: where there is no room for two, or there must never be two."
  type        = bool
}

variable "size" {
  description = "Of a task: CPU units (1024 = one core), MiB of memory, GPUs, and MiB of shared memory for Ray's object store (0 on Fargate, which has none to give)."
  type        = object({ cpu = number, memory = number, gpus = number, shared_memory = number })
}

variable "image" {
  description = "Image of the service."
  type        = string
}

variable "command" {
  description = "Shell command of the main container."
  type        = string
}

variable "environment" {
  description = "Variables of the main container."
  type        = map(string)
}

variable "secrets" {
  description = "Variables of the main container that are taken from secrets: name -> ARN."
  type        = map(string)
  default     = {}
}

variable "health_command" {
  description = "Shell command that succeeds while the main container is well."
  type        = string
}

variable "metrics_url" {
  description = "Prometheus text inside the task that is published as CloudWatch metrics."
  type        = string
}

variable "cache_path" {
  description = "Folder of the machine that holds downloaded models; null: within the task, gone with it."
  type        = string
  default     = null
}

variable "subnet_ids" {
  description = "Private subnets of the tasks."
  type        = list(string)
}

variable "security_group_ids" {
  description = "Groups of the tasks' interfaces."
  type        = list(string)
}

variable "target" {
  description = "Target group and port that requests come in by, and the seconds until a task is judged by it; null: none do."
  type        = object({ group_arn = string, port = number, grace_s = number })
  default     = null
}

variable "registry_arn" {
  description = "Cloud Map service that knows the tasks' addresses; null: none does."
  type        = string
  default     = null
}

variable "task_policies" {
  description = "What the service itself may do: name -> IAM policy as JSON."
  type        = map(string)
  default     = {}
}

variable "image_repository_arn" {
  description = "Repository of the image."
  type        = string
}

variable "kms_key_arn" {
  description = "Key of secrets."
  type        = string
}

variable "log_groups" {
  description = "Groups of the lines about requests and of those about minutes."
  type        = object({ detailed = object({ name = string, arn = string }), aggregated = object({ name = string, arn = string }) })
}
