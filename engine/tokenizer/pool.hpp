// Things that are costly to make and hold no result between uses: borrowed by one thread at a time, kept for the next.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace muster::tokenizer {

template <class Thing>
class Pool {
 public:
  class Loan {
   public:
    Loan(Pool& pool, std::unique_ptr<Thing> thing) : pool_(pool), thing_(std::move(thing)) {}
    Loan(const Loan&) = delete;
    Loan& operator=(const Loan&) = delete;
    ~Loan() { pool_.give_back(std::move(thing_)); }
    Thing& operator*() { return *thing_; }
    Thing* operator->() { return thing_.get(); }

   private:
    Pool& pool_;
    std::unique_ptr<Thing> thing_;
  };

  // One that was given back, or what make() makes.
  template <class Make>
  Loan borrow(Make make) {
    std::unique_ptr<Thing> thing;
    {
      const std::lock_guard lock(gate_);
      if (!idle_.empty()) {
        thing = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (!thing) thing = make();
    return Loan(*this, std::move(thing));
  }

 private:
  void give_back(std::unique_ptr<Thing> thing) {
    const std::lock_guard lock(gate_);
    idle_.push_back(std::move(thing));
  }

  std::mutex gate_;
  std::vector<std::unique_ptr<Thing>> idle_;
};

}  // namespace muster::tokenizer
