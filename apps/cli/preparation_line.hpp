// Shows on a status line how far the preparation of data has got.
#pragma once

#include "cli/status_line.hpp"
#include "data/prepare_data.hpp"

namespace muster::cli {

// The line must outlive the result.
data::OnPreparation show_preparation(StatusLine& line);

}  // namespace muster::cli
