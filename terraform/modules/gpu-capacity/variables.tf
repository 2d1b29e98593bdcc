variable "name" {
  description = "Name of the machines and of the capacity provider."
  type        = string
}

variable "cluster_name" {
  description = "ECS cluster that the machines join."
  type        = string
}

variable "vpc_id" {
  description = "VPC of the machines."
  type        = string
}

variable "subnet_ids" {
  description = "Private subnets of the machines."
  type        = list(string)
}

variable "instance_types" {
  description = "GPU instance types, the preferred first; all of the same number of GPUs."
  type        = list(string)

  validation {
    condition     = length(var.instance_types) > 0 && alltrue([for type in var.instance_types : can(regex("^(g4dn|g5|g6|g6e|gr6|p4d|p4de|p5|p5e|p5en)\\.", type))])
    error_message = "instance_types must be NVIDIA GPU types (g4dn, g5, g6, g6e, gr6, p4d, p4de, p5, p5e, p5en)."
  }
}

variable "ami_id" {
  description = "ECS-optimised GPU image."
  type        = string
}

variable "machines" {
  description = "Fewest and most machines."
  type        = object({ min = number, max = number })

  validation {
    condition     = var.machines.min >= 0 && var.machines.max >= max(1, var.machines.min)
    error_message = "machines.min must be at least 0, machines.max at least 1 and not below machines.min."
  }
}

variable "on_demand" {
  description = "Machines that are not spot: so many first, then this percentage of the rest."
  type        = object({ base = number, percentage = number })
  default     = { base = 1, percentage = 0 }

  validation {
    condition     = var.on_demand.base >= 0 && var.on_demand.percentage >= 0 && var.on_demand.percentage <= 100
    error_message = "on_demand.base must be at least 0 and on_demand.percentage from 0 to 100."
  }
}

variable "disk_gb" {
  description = "Disk of a machine: image and model."
  type        = number
  default     = 200

  validation {
    condition     = var.disk_gb >= 60
    error_message = "disk_gb must be at least 60: the ECS GPU image alone takes 30."
  }
}

variable "tags" {
  description = "Tags of machines and disks: the provider's default tags do not reach what an autoscaling group starts."
  type        = map(string)
}
