#ifndef ESP_TESTS_EDIT_KILL_H
#define ESP_TESTS_EDIT_KILL_H
/* The program itself, killed in the middle of a big move, then told to repair. */
#include "tests/support/support.h"

struct edit_kill {
    const char *program; /* path of espalier */
    const char *store;   /* as on the command line */
    const char *folder;  /* for the tree and the journals */
    unsigned nodes;      /* that move */
    unsigned rounds;     /* kills for each layout */
    unsigned seed;
    /* out */
    unsigned mended; /* repairs that finished an edit */
};
/* Fails the test unless, after every kill and repair, the check finds nothing and the move is done
 * or, where the edit had sent nothing, not begun. */
void edit_kill_layout(struct edit_kill *k, const char *layout);

#endif
