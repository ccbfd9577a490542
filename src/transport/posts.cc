#include "transport/posts.h"

#include <algorithm>

#include "transport/peer_status.h"

namespace nf {

Post& Posts::add(Transfer& transfer, Direction direction) {
  transfer.size = 0;
  transfer.is_done = false;
  return posts_.emplace_back(Post{.transfer = &transfer,
                                  .bytes = transfer.bytes,
                                  .peer = transfer.peer,
                                  .direction = direction});
}

Post* Posts::first_waiting(std::uint32_t peer, Direction direction) {
  const auto it = std::ranges::find_if(posts_, [&](const Post& post) {
    return post.peer == peer && post.direction == direction && post.state == Post::State::kWaiting;
  });
  return it == posts_.end() ? nullptr : &*it;
}

Post* Posts::find(const Transfer* transfer) {
  const auto it = std::ranges::find(posts_, transfer, &Post::transfer);
  return it == posts_.end() ? nullptr : &*it;
}

bool Posts::has_moving() const {
  return std::ranges::find(posts_, Post::State::kMoving, &Post::state) != posts_.end();
}

std::vector<std::uint32_t> Posts::peers() const {
  std::vector<std::uint32_t> peers;
  for (const Post& post : posts_) peers.push_back(post.peer);
  return peers;
}

Posts::Settled Posts::settle() {
  Settled settled;
  std::erase_if(posts_, [&](const Post& post) {
    if (post.state != Post::State::kFinished) return false;
    if (post.direction == Direction::kReceive && post.size > post.bytes.size()) {
      if (settled.problem.ok()) settled.problem = too_long(post.peer, post.size, post.bytes.size());
      return true;
    }
    post.transfer->size = post.size;
    post.transfer->is_done = true;
    ++settled.done;
    return true;
  });
  return settled;
}

}  // namespace nf
