variable "name" {
  description = "Name of the API."
  type        = string
}

variable "function" {
  description = "Function that answers: its name and the ARN by which it is invoked for a streamed answer."
  type        = object({ name = string, stream_invoke_arn = string })
}

variable "timeout_s" {
  description = "Longest answer, in seconds; as long as the function's."
  type        = number
}

variable "allowed_origins" {
  description = "Origins of web pages that may call the API; a list of several is answered by the handler, `*` allows every page."
  type        = list(string)
  default     = []
}

variable "throttle" {
  description = "Requests per second, and how many at once beyond that."
  type        = object({ rate = number, burst = number })
  default     = { rate = 5, burst = 10 }

  validation {
    condition     = var.throttle.rate > 0 && var.throttle.burst >= 1
    error_message = "throttle.rate must be above 0 and throttle.burst at least 1."
  }
}

variable "log_group" {
  description = "Group of the access log: one line per request, without content."
  type        = object({ name = string, arn = string })
}

variable "account_logging_role" {
  description = "Whether to give API Gateway its role for writing logs: a setting of the whole account and region, false where it is set already."
  type        = bool
  default     = true
}
