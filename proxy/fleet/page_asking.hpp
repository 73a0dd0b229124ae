// Asks a replica for a page of its own, on a connection of its own, without blocking: the prober, the reader of engines
// and the model directory use it.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "proxy/fleet/question.hpp"
#include "proxy/fleet/snapshot.hpp"
#include "proxy/net/awaitable.hpp"

namespace weir::proxy::fleet {

struct PageAnswer {
  unsigned status = 0;  ///< 0 if there was no whole answer.
  std::string body;
  std::string why_none{};  ///< A clause, if a connection came about and no whole answer: "its answer is too long".
  bool begun = false;     ///< Its head came.
};

/// Keeps a page whole. A longer page than `longest` is no answer.
class PageReader final : public AnswerReader {
 public:
  PageReader(PageAnswer& page, std::size_t longest) : page_(page), longest_(longest) {}
  void head(const http::ResponseHead& head, metrics::Moment, metrics::Moment) override {
    status_ = head.status;
    page_.begun = true;
  }
  bool body(std::span<const char> bytes, metrics::Moment) override {
    page_.body.append(bytes.data(), bytes.size());
    return page_.body.size() <= longest_;
  }
  void end(bool whole, bool, metrics::Moment) override { page_.status = whole ? status_ : 0; }

 private:
  PageAnswer& page_;
  std::size_t longest_;
  unsigned status_ = 0;
};

/// `limit` is for all of it. An answer of more than `longest` bytes is none. On the thread of the caller's executor.
net::Awaitable<PageAnswer> ask_for_page(std::shared_ptr<const Replica> replica, Question question,
                                        std::chrono::steady_clock::duration limit, std::size_t longest);

}  // namespace weir::proxy::fleet
