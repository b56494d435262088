// LibTorch's tensors. Everything that sees torch includes this, which is precompiled.
#pragma once

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
