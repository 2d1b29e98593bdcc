variable "name" {
  description = "Alias of the key, without `alias/`."
  type        = string
}

variable "description" {
  description = "What the key protects."
  type        = string
}

variable "services" {
  description = "Service principals that use the key on this account's behalf, e.g. sns.amazonaws.com."
  type        = set(string)
  default     = []

  validation {
    condition     = alltrue([for service in var.services : endswith(service, ".amazonaws.com")])
    error_message = "services are service principals: each ends in .amazonaws.com."
  }
}

variable "encrypts_log_groups" {
  description = "Whether CloudWatch Logs groups of this account and region are encrypted with the key."
  type        = bool
  default     = false
}

variable "encrypts_trails" {
  description = "Whether CloudTrail trails of this account are encrypted with the key."
  type        = bool
  default     = false
}
