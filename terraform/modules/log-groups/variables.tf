variable "name" {
  description = "Prefix of the groups' names."
  type        = string
}

variable "kms_key_arn" {
  description = "Key of the logs."
  type        = string
}

variable "detailed_days" {
  description = "Days that lines about single requests are kept."
  type        = number
  default     = 7
}

variable "aggregated_days" {
  description = "Days that lines about minutes are kept."
  type        = number
  default     = 90
}
