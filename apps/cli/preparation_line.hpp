// Tells on a status line how far the preparation of data is.
#pragma once

#include "cli/status_line.hpp"
#include "data/prepare_data.hpp"

namespace muster::cli {

// The line must outlive what is returned.
data::OnPreparation show_preparation(StatusLine& line);

}  // namespace muster::cli
