#pragma once

#include <chrono>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
  // Ends every wait of the context with an exception.
  void closeConnections();
};

}  // namespace gloo
