variable "name" {
  description = "Prefix of every name."
  type        = string
}

variable "logs_bucket" {
  description = "Bucket that the trail goes to, under trail/; it decides for how long."
  type        = string
}

variable "kms_key_arn" {
  description = "Key of the trail; it must let CloudTrail use it."
  type        = string
}

variable "data_bucket_arns" {
  description = "Buckets whose single reads and writes are recorded, too."
  type        = list(string)
  default     = []
}

variable "trail" {
  description = "Whether to record the account's API calls; false where the organisation has a trail already: a second one is charged for."
  type        = bool
  default     = true
}

variable "access_analyzer" {
  description = "Whether to look for resources open to other accounts; false where the account has an analyzer already."
  type        = bool
  default     = true
}
