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
  description = "Address range of the VPC, /16 to /20; every pod takes an address of it."
  type        = string
  default     = "10.40.0.0/16"
}

variable "zones" {
  description = "Availability zones, two or three, where the GPU types are offered."
  type        = list(string)
}

variable "public_subnets" {
  description = "Whether an Ingress may be internet-facing; without, only the VPC and networks joined to it reach the service."
  type        = bool
  default     = false
}

variable "kubernetes_version" {
  description = "Kubernetes version, e.g. 1.33."
  type        = string
  default     = "1.33"
}

variable "admin_role_arns" {
  description = "IAM roles that administer the cluster; at least one."
  type        = set(string)
}

variable "api_clients" {
  description = "IPv4 ranges from which the Kubernetes API is reached over the internet; none: only from the VPC."
  type        = list(string)
  default     = []
}

variable "system_nodes" {
  description = "Machines for what runs the cluster: types, fewest, most."
  type        = object({ instance_types = list(string), min = number, max = number })
  default     = { instance_types = ["m7i.large", "m6i.large"], min = 2, max = 4 }
}

variable "further_endpoints" {
  description = "Further AWS services that pods reach without leaving the VPC, e.g. bedrock-runtime where some requests are routed there."
  type        = set(string)
  default     = []
}

variable "mirrored_images" {
  description = "Images of others that the cluster pulls: repositories are made for them, because there is no way to the internet."
  type        = set(string)
  default = [
    "kuberay/operator", "karpenter/controller", "aws-load-balancer-controller", "external-secrets", "fluent-bit",
    "nvidia/k8s-device-plugin", "nvidia/dcgm-exporter",
  ]
}

variable "release" {
  description = "Name of the chart's Helm release: its service accounts are RELEASE-verifier and the like."
  type        = string
  default     = "canopy"
}

variable "namespace" {
  description = "Namespace of the Helm release."
  type        = string
  default     = "canopy"
}

variable "monitoring" {
  description = "Namespace and service accounts of what watches: Fluent Bit writes logs, Alertmanager publishes alarms."
  type        = object({ namespace = string, fluent_bit = string, alertmanager = string })
  default     = { namespace = "monitoring", fluent_bit = "fluent-bit", alertmanager = "alertmanager" }
}
