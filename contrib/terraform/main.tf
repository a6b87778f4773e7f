# Scans a node over ssh and fails `terraform apply` unless gpuscan exits with 0: what depends on
# terraform_data.gpuscan is made only for a node that passed. terraform_data is built in
# (Terraform 1.4 and newer, OpenTofu), so no provider is downloaded. gpuscan is in the image.
variable "host" {
  type = string
}

variable "port" {
  type    = number
  default = 22
}

variable "user" {
  type    = string
  default = "root"
}

variable "key_file" {
  type    = string
  default = "~/.ssh/id_ed25519"
}

variable "gpuscan_args" {
  type        = string
  default     = ""
  description = "More words for gpuscan run, as \"--profile h100-8x\"."
}

resource "terraform_data" "gpuscan" {
  # Scan again when the machine is another one; `terraform apply -replace=terraform_data.gpuscan`
  # scans at any time. A scan that failed is tainted, and so repeated by the next apply.
  triggers_replace = [var.host, var.gpuscan_args]

  connection {
    type        = "ssh"
    host        = var.host
    port        = var.port
    user        = var.user
    private_key = file(pathexpand(var.key_file))
    timeout     = "5m"
  }

  provisioner "remote-exec" {
    # One command: of several, only the last one's exit code counts.
    inline = [
      "timeout 360 gpuscan run --require-full --settle 90s --deadline 4m ${var.gpuscan_args}",
    ]
  }
}
