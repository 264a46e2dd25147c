/* A program that links the static library may use the names that its inside uses: none of them is
 * global there. */
int buf_append(void);
int clock_mono(void);
int name_is_id(void);
int message_get(void);
int heartbeat_decode(void);
int json_read(void);

int buf_append(void)
{
    return 1;
}
int clock_mono(void)
{
    return 2;
}
int name_is_id(void)
{
    return 3;
}
int message_get(void)
{
    return 4;
}
int heartbeat_decode(void)
{
    return 5;
}
int json_read(void)
{
    return 6;
}
