variable "name" {
  description = "Name of the cluster."
  type        = string
}

variable "kubernetes_version" {
  description = "Kubernetes version, e.g. 1.33."
  type        = string

  validation {
    condition     = can(regex("^1\\.(3[1-9]|[4-9][0-9])$", var.kubernetes_version))
    error_message = "kubernetes_version must be 1.31 or newer: 1.33 and the like, without a patch level."
  }
}


variable "subnet_ids" {
  description = "Private subnets of control plane interfaces and system nodes."
  type        = list(string)
}

variable "api_clients" {
  description = "IPv4 ranges from which the Kubernetes API is reached over the internet; none: only from the VPC."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for cidr in var.api_clients : can(cidrhost(cidr, 0)) && cidr != "0.0.0.0/0"])
    error_message = "api_clients must be IPv4 ranges; not 0.0.0.0/0: the Kubernetes API is not for everyone."
  }
}

variable "admin_role_arns" {
  description = "IAM roles that administer the cluster."
  type        = set(string)

  validation {
    condition     = length(var.admin_role_arns) > 0 && alltrue([for arn in var.admin_role_arns : can(regex("^arn:[a-z-]+:iam::[0-9]{12}:role/", arn))])
    error_message = "admin_role_arns must be ARNs of IAM roles, at least one: nobody else can administer the cluster, its creator neither."
  }
}

variable "kms_key_arn" {
  description = "Key of the cluster's Secrets."
  type        = string
}

variable "logs_key_arn" {
  description = "Key of the control plane's logs."
  type        = string
}

variable "log_days" {
  description = "Days that the control plane's logs are kept."
  type        = number
  default     = 7
}

variable "system_nodes" {
  description = "Machines for what runs the cluster (Karpenter, operators, CoreDNS): type, fewest, most."
  type        = object({ instance_types = list(string), min = number, max = number })
  default     = { instance_types = ["m7i.large", "m6i.large"], min = 2, max = 4 }

  validation {
    condition     = var.system_nodes.min >= 2 && var.system_nodes.max > var.system_nodes.min
    error_message = "system_nodes.min must be at least 2, so that one may go, and system_nodes.max above it."
  }
}

variable "tags" {
  description = "Tags of machines and disks: the provider's default tags do not reach what an autoscaling group starts."
  type        = map(string)
}
