variable "name" {
  description = "Name of the installation: prefix of every name, and the value of the tag Project that costs are counted by."
  type        = string
  default     = "canopy"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,20}[a-z0-9]$", var.name))
    error_message = "name must be 3 to 22 characters: lower-case letters, digits and hyphens, a letter first."
  }
}

variable "environment" {
  description = "Tag Environment: dev, staging or prod."
  type        = string

  validation {
    condition     = contains(["dev", "staging", "prod"], var.environment)
    error_message = "environment must be dev, staging or prod."
  }
}

variable "owner" {
  description = "Tag Owner: the team that answers for the costs."
  type        = string

  validation {
    condition     = length(trimspace(var.owner)) > 0
    error_message = "owner must name the team that answers for the costs."
  }
}

variable "region" {
  description = "AWS region."
  type        = string

  validation {
    condition     = can(regex("^[a-z]{2}(-[a-z]+)+-[0-9]$", var.region))
    error_message = "region must be a region's code, e.g. eu-central-1."
  }
}

variable "alert_emails" {
  description = "Addresses that get alerts; each has to confirm once."
  type        = set(string)
  default     = []
}

variable "pagerduty_url" {
  description = "Integration URL of a PagerDuty service; null: none."
  type        = string
  default     = null
  sensitive   = true
}

variable "slack" {
  description = "Slack workspace (T...) and channel (C...) ids that get alerts; null: none."
  type        = object({ workspace_id = string, channel_id = string })
  default     = null
}

variable "monthly_budget_usd" {
  description = "What a month may cost; alerts at 80% spent and at 100% forecast."
  type        = number
}

variable "anomaly_usd" {
  description = "A day's unexpected cost that is worth an alert."
  type        = number
  default     = 20
}

variable "activate_cost_tags" {
  description = "Whether to activate the tags for cost allocation. Only from the second apply on: AWS knows a tag about a day after its first use."
  type        = bool
  default     = false
}

variable "trail" {
  description = "Whether to record the account's API calls; false where a trail exists already."
  type        = bool
  default     = true
}

variable "access_analyzer" {
  description = "Whether to look for resources open to other accounts; false where an analyzer exists already."
  type        = bool
  default     = true
}

variable "cidr" {
  description = "Address range of the VPC, /16 to /20."
  type        = string
  default     = "10.40.0.0/16"
}

variable "zones" {
  description = "Availability zones, two or three, where the GPU types are offered."
  type        = list(string)
}

variable "internal" {
  description = "Whether the load balancer has only private addresses."
  type        = bool
  default     = true
}

variable "client_cidrs" {
  description = "IPv4 ranges of the clients."
  type        = list(string)
}

variable "certificate_arn" {
  description = "ACM certificate of the name that clients use."
  type        = string
}

variable "image_tag" {
  description = "Tag of the CUDA image in the stack's repository NAME/server."
  type        = string

  validation {
    condition     = can(regex("^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$", var.image_tag)) && var.image_tag != "latest"
    error_message = "image_tag must be a tag that stays what it is, e.g. a version or a commit; not latest."
  }
}

variable "model_prefix" {
  description = "Folder of the model in the stack's models bucket."
  type        = string

  validation {
    condition     = can(regex("^[^/].*[^/]$", var.model_prefix))
    error_message = "model_prefix must be a folder in the bucket without slashes around it, e.g. llama-3.1-8b-instruct."
  }
}

variable "head_prefix" {
  description = "Folder of the model's draft head in the bucket; null: drafts by prompt lookup."
  type        = string
  default     = null
}

variable "instance_types" {
  description = "GPU machines, the preferred type first."
  type        = list(string)
  default     = ["g6.2xlarge", "g5.2xlarge"]
}

variable "server" {
  description = "Of a GPU task, which is one verifier on one GPU: CPU units and MiB of memory. It must fit the smallest of instance_types; a machine with several GPUs takes as many tasks."
  type        = object({ cpu = number, memory = number })
  default     = { cpu = 7168, memory = 28672 }

  validation {
    condition     = var.server.cpu >= 1024 && var.server.memory >= 8192
    error_message = "server.cpu must be at least 1024 (one core) and server.memory 8192 MiB."
  }
}

variable "servers" {
  description = "GPU tasks: how many, and how many of their machines are never spot."
  type        = object({ count = number, on_demand = number })
  default     = { count = 1, on_demand = 1 }

  validation {
    condition     = var.servers.count >= 1 && var.servers.on_demand >= 0 && var.servers.on_demand <= var.servers.count
    error_message = "servers.count must be at least 1, and servers.on_demand from 0 to that."
  }
}

variable "settings" {
  description = "Further settings of the service, as in serving/config.py: `{ engine = { max_model_len = 8192 } }`."
  type        = any
  default     = {}

  validation {
    condition     = can(keys(var.settings)) && !can(var.settings.model) && !can(var.settings.replicas)
    error_message = "settings must be sections of serving/config.py; model and replicas follow from other variables."
  }
}

variable "queue_alarm" {
  description = "Waiting requests of all verifiers that are too many."
  type        = number
  default     = 32
}

variable "acceptance_alarm_percent" {
  description = "Share of draft tokens that should be accepted, in percent: below it, drafting costs more than it gives, or the head is not the model's."
  type        = number
  default     = 10

  validation {
    condition     = var.acceptance_alarm_percent > 0 && var.acceptance_alarm_percent < 100
    error_message = "acceptance_alarm_percent must be between 0 and 100."
  }
}
